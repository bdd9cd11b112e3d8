<?php
declare(strict_types=1);
namespace Geo;
interface Shape { public function area(): float; }
trait Named { private function name(): string { return "x"; } }
final class Sq implements Shape { use Named; const K = 2; public function __construct(private float $n) { } public function area(): float { return $this->n ** 2; } public static function make(int $n): static { return new static($n); } }
/** Doc. */
function gen(int ...$xs): iterable { foreach ($xs as $x) { yield $x; } }
function &ref(array &$a) { return $a; }
function main(): void { echo Sq::make(3)->area(), "\n"; }
main();
