namespace N { export function f(a: string, b?: number): number { return g(a) + (b || 0); } function g(a: string): number { return a.length; } }
abstract class Shape { constructor(protected name: string) { } abstract area(): number; describe(): string { return this.name + this.area(); } }
class Sq extends Shape { constructor(private n: number) { super("sq"); } area(): number { return this.n * this.n; } get side(): number { return this.n; } static make<T>(x: T): T { return x; } }
function over(a: string): string; function over(a: number): number;
function over(a: any): any { return a; }
const twice = (x: number): number => x * 2;
console.log(N.f("a"), new Sq(twice(2)).describe());
