<?php
// Answers a job of kind "calls" for PHP.
//
// In: php calls.php CALLS RESULTS SOLUTION ENTRY (a file, a descriptor, an absolute path, a name); the
// contract is that of sandbox/languages/base.py. Out: frames on RESULTS.
// Wrong: a value without a counterpart is refused for its call alone (arguments: an error "ArgumentError";
// results: "u"); a solution that does not parse, load or have the function is a FAILURE frame, and so is a
// fatal error in a call.
//
//   from Python                         here                      to Python
//   None, bool                          null, bool                None, bool
//   int of 64 bits                      int                       int
//   float                               float                     float
//   str                                 string, valid UTF-8       str
//   bytes, bytearray                    other string              bytes
//   list, tuple, range, deque           array that is a list      list
//   set, frozenset, in no order         array that is a list      list
//   dict with int, str or bytes keys    other array               dict
//                                       object of class stdClass  dict
//   other dict, larger int, complex, Decimal, Fraction, dates and times: refused
//
// So says PHP itself: a key "1" is the key 1, an empty dict is an empty list, and bytes that are valid UTF-8
// are a str. A dict with both 1 and "1" is refused. Objects of other classes have no encoding, and none of
// their methods is called.
//
// The solution shares this process, but cannot redefine a function of PHP's: each is imported by name, so
// that one of the same name in this namespace is not taken for it. The solution is loaded at the top level,
// since its variables must be global there.

namespace SandboxHarness;

use function array_is_list, array_key_exists, count, error_get_last, file_get_contents, fopen, fwrite;
use function get_class, get_defined_functions, getmypid, gettype, ini_set, is_array, is_bool, is_float;
use function is_int, is_nan, is_object, is_string, ord, pack, preg_match, preg_replace;
use function register_shutdown_function, str_pad, str_repeat, strlen, strrpos, strtok, strtolower, substr;
use function unlink, unpack;
use const E_COMPILE_ERROR, E_CORE_ERROR, E_ERROR, E_PARSE, E_RECOVERABLE_ERROR, E_USER_ERROR, PHP_INT_MIN;

const MAX_DEPTH = 100;
const MAX_NODES = 1000000;
const MAX_BYTES = 64 << 20;

/** Why a value is refused. */
final class Refusal extends \Exception
{
}

/** Values to the bytes of sandbox/codec.py. */
final class Encoder
{
    private string $out = '';
    private int $nodes = 0;

    /** Throws Refusal for a value without a counterpart and past the bounds of depth, number and size. */
    public static function encode(mixed $value): string
    {
        $encoder = new self();
        $encoder->put($value, 0);
        return $encoder->out;
    }

    private function put(mixed $value, int $depth): void
    {
        if (++$this->nodes > MAX_NODES) {
            throw new Refusal('more than ' . MAX_NODES . ' values');
        }
        if (is_int($value)) {
            $this->out .= self::integer($value);
        } elseif (is_string($value)) {
            $this->string($value);
        } elseif (is_array($value)) {
            $this->array($value, $depth);
        } elseif ($value === null) {
            $this->out .= 'N';
        } elseif (is_bool($value)) {
            $this->out .= $value ? 'T' : 'F';
        } elseif (is_float($value)) {
            $this->out .= 'd' . (is_nan($value) ? "\x7f\xf8\0\0\0\0\0\0" : pack('E', $value));
        } elseif (is_object($value) && get_class($value) === 'stdClass') {
            $this->object((array) $value, $depth);
        } else {
            throw new Refusal(type_of($value) . ', which has no encoding');
        }
        if (strlen($this->out) > MAX_BYTES) {
            throw new Refusal('larger than ' . MAX_BYTES . ' bytes');
        }
    }

    public static function length(int $number): string
    {
        $bytes = '';
        while ($number > 127) {
            $bytes .= pack('C', $number & 127 | 128);
            $number >>= 7;
        }
        return $bytes . pack('C', $number);
    }

    private static function integer(int $value): string
    {
        if ($value === PHP_INT_MIN) {
            return "i\x09\0\0\0\0\0\0\0\x80\xff";
        }
        $size = 1;
        for ($left = ($value < 0 ? -$value : $value) >> 7; $left > 0; $left >>= 8) {
            $size++;
        }
        return 'i' . pack('C', $size) . substr(pack('P', $value), 0, $size);
    }

    private function string(string $value): void
    {
        if (strlen($value) > MAX_BYTES) {
            throw new Refusal('larger than ' . MAX_BYTES . ' bytes');
        }
        $this->out .= (is_text($value) ? 's' : 'b') . self::length(strlen($value)) . $value;
    }

    private function open(string $tag, int $count, int $values, int $weight, int $depth): void
    {
        // A cycle of references has no end, so this bound finds it too.
        if ($depth >= MAX_DEPTH) {
            throw new Refusal('nested deeper than ' . MAX_DEPTH . ', or a cycle');
        }
        if ($this->nodes + $values > MAX_NODES) {
            throw new Refusal('more than ' . MAX_NODES . ' values');
        }
        $this->nodes += $weight;
        $this->out .= $tag . self::length($count);
    }

    private function array(array $value, int $depth): void
    {
        $count = count($value);
        if (array_is_list($value)) {
            $this->open('l', $count, $count, 0, $depth);
            foreach ($value as $item) {
                $this->put($item, $depth + 1);
            }
            return;
        }
        $this->open('m', $count, 2 * $count, 4, $depth);
        foreach ($value as $key => $item) {
            $this->put($key, $depth + 1);
            $this->put($item, $depth + 1);
        }
    }

    private function object(array $properties, int $depth): void
    {
        $count = count($properties);
        $this->open('m', $count, 2 * $count, 4, $depth);
        foreach ($properties as $name => $item) {
            $name = (string) $name;
            $this->put($name, $depth + 1);
            $this->put($item, $depth + 1);
        }
    }
}

/** Whether Python's UTF-8, which lets surrogates through, can read it. */
function is_text(string $bytes): bool
{
    if (preg_match('//u', $bytes) === 1) {
        return true;
    }
    $rest = preg_replace('/\xED[\xA0-\xBF][\x80-\xBF]/', '?', $bytes);
    return $rest !== null && $rest !== $bytes && preg_match('//u', $rest) === 1;
}

function type_of(mixed $value): string
{
    if (is_object($value)) {
        return 'an object of class ' . class_name($value);
    }
    return 'a value of type ' . gettype($value);
}

function class_name(object $value): string
{
    // The name of an anonymous class goes on, behind a zero byte, with where it stands.
    return substr(strtok(get_class($value), "\0"), 0, 100);
}

/** The bytes of sandbox/codec.py to values; throws Refusal for a type without a counterpart. */
final class Decoder
{
    private const FOREIGN = [
        'c' => 'complex', 'D' => 'Decimal', 'Q' => 'Fraction', 'e' => 'timedelta', 'y' => 'date',
        'w' => 'datetime', 'u' => 'time',
    ];

    private int $nodes = 0;

    public function __construct(private string $bytes, private int $at)
    {
    }

    public function take(): mixed
    {
        $this->nodes++;
        $tag = $this->bytes[$this->at++];
        switch ($tag) {
            case 'i':
                return $this->integer();
            case 's':
            case 'b':
            case 'a':
                return $this->slice($this->length());
            case 'N':
                return null;
            case 'T':
                return true;
            case 'F':
                return false;
            case 'd':
                return unpack('E', $this->slice(8))[1];
            case 'l':
            case 't':
            case 'q':
            case 'S':
            case 'Z':
                $items = [];
                for ($left = $this->length(); $left > 0; $left--) {
                    $items[] = $this->take();
                }
                return $items;
            case 'm':
            case 'o':
            case 'k':
            case 'f':
                return $this->mapping();
            case 'r':
                return $this->range();
            default:
                $type = self::FOREIGN[$tag] ?? '?';
                throw new Refusal("an argument of Python's type $type, which PHP has no counterpart for");
        }
    }

    private function slice(int $size): string
    {
        $part = substr($this->bytes, $this->at, $size);
        $this->at += $size;
        return $part;
    }

    private function length(): int
    {
        $number = 0;
        $shift = 0;
        do {
            $byte = ord($this->bytes[$this->at++]);
            $number |= ($byte & 127) << $shift;
            $shift += 7;
        } while ($byte > 127);
        return $number;
    }

    private function integer(): int
    {
        $size = $this->length();
        $part = $this->slice($size);
        $negative = ord($part[$size - 1]) > 127;
        // The least of 64 bits takes nine bytes, since its size does.
        if ($size > 9 || ($size === 9 && !($negative && $part[8] === "\xff" && ord($part[7]) > 127))) {
            throw new Refusal('an int of more than 64 bits');
        }
        return unpack('P', str_pad(substr($part, 0, 8), 8, $negative ? "\xff" : "\0"))[1];
    }

    private function mapping(): array
    {
        $made = [];
        for ($left = $this->length(); $left > 0; $left--) {
            $key = $this->take();
            if (!is_int($key) && !is_string($key)) {
                throw new Refusal('a dict with a key that is neither int nor str');
            }
            if (array_key_exists($key, $made)) {
                throw new Refusal("a dict with two keys that are one in PHP: $key");
            }
            $made[$key] = $this->take();
        }
        return $made;
    }

    private function range(): array
    {
        $parts = [];
        for ($index = 0; $index < 3; $index++) {
            $this->at++;
            $parts[] = $this->integer();
        }
        [$start, $stop, $step] = $parts;
        $made = [];
        while ($step > 0 ? $start < $stop : $start > $stop) {
            if (++$this->nodes > MAX_NODES) {
                throw new Refusal('a range of more than ' . MAX_NODES . ' values');
            }
            $made[] = $start;
            $start += $step;
        }
        return $made;
    }
}

/** The job, step by step; static, since the solution is loaded at the top level between two steps. */
final class Harness
{
    private const EXIT_CHANNEL_LOST = 71;
    private const MAX_MESSAGE = 1000;
    private const UNPARSED = E_PARSE | E_COMPILE_ERROR;
    private const FATAL = self::UNPARSED | E_ERROR | E_CORE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR;

    public static string $path;
    private static string $entry;
    private static string $calls;
    private static string $nonce;
    /** @var resource */
    private static $results;
    private static int $owner;
    private static bool $over = false;
    /** Memory that is given back when there is no other, so that there is enough to say so. */
    private static ?string $reserve;

    public static function begin(): void
    {
        [, $calls, $results, self::$path, self::$entry] = $GLOBALS['argv'];
        self::$calls = file_get_contents($calls);
        unlink($calls);
        self::$nonce = substr(self::$calls, 0, 8);
        self::$results = fopen("php://fd/$results", 'wb');
        self::$owner = getmypid();
        self::$reserve = str_repeat('.', 1 << 18);
        $GLOBALS['argv'] = $_SERVER['argv'] = [self::$path];
        $GLOBALS['argc'] = $_SERVER['argc'] = 1;
        register_shutdown_function(self::ended(...));
    }

    public static function failedToLoad(\Throwable $error): never
    {
        $unparsed = $error instanceof \ParseError && $error->getFile() === self::$path;
        $where = $unparsed ? " (line {$error->getLine()})" : '';
        self::fail($unparsed ? 'compile' : 'load', self::nameOf($error), $error->getMessage() . $where, '');
    }

    public static function answer(): never
    {
        $function = self::find();
        if ($function === null) {
            self::fail('missing', 'Error', 'the solution has no function ' . self::$entry . '()', '');
        }
        self::frame('R', '');
        $count = unpack('V', self::$calls, 8)[1];
        $place = 12;
        for (; $count > 0; $count--) {
            $size = unpack('V', self::$calls, $place)[1];
            self::frame('O', self::outcome($function, new Decoder(self::$calls, $place + 4)));
            $place += 4 + $size;
        }
        self::frame('D', Encoder::encode(0));
        self::$over = true;
        exit(0);
    }

    /** The function that the solution defines under that name, in any namespace if in one only. */
    private static function find(): ?string
    {
        $wanted = strtolower(self::$entry);
        $found = [];
        foreach (get_defined_functions()['user'] as $name) {
            if ($name === $wanted) {
                return $name;
            }
            $cut = strrpos($name, '\\');
            if ($cut !== false && substr($name, $cut + 1) === $wanted) {
                $found[] = $name;
            }
        }
        return count($found) === 1 ? $found[0] : null;
    }

    private static function outcome(string $function, Decoder $decoder): string
    {
        try {
            [$args, $kwargs] = $decoder->take();
        } catch (Refusal $refusal) {
            return 'e' . Encoder::encode(['ArgumentError', $refusal->getMessage(), '']);
        }
        try {
            $value = $function(...$args, ...$kwargs);
        } catch (\Throwable $error) {
            return 'e' . self::strings(self::nameOf($error), $error->getMessage(), '');
        }
        try {
            return 'v' . Encoder::encode($value);
        } catch (Refusal $refusal) {
            $name = is_object($value) ? class_name($value) : gettype($value);
            return 'u' . self::strings($name, $refusal->getMessage(), '');
        }
    }

    private static function nameOf(\Throwable $error): string
    {
        $name = class_name($error);
        // The name of an error that only this file makes.
        return strtolower($name) === 'argumenterror' ? "own.$name" : $name;
    }

    private static function strings(string ...$parts): string
    {
        foreach ($parts as &$part) {
            if (!is_text($part)) {
                $part = preg_replace('/[\x80-\xff]/', '?', $part) ?? '?';
            }
            if (preg_match('/^.{0,' . self::MAX_MESSAGE . '}/us', $part, $match)) {
                $part = $match[0];
            }
        }
        return Encoder::encode($parts);
    }

    private static function frame(string $kind, string $payload): void
    {
        if (getmypid() !== self::$owner) {
            // A fork of this process that comes back this way ends quietly.
            exit(0);
        }
        $data = self::$nonce . $kind . pack('V', strlen($payload)) . $payload;
        try {
            while ($data !== '') {
                $sent = fwrite(self::$results, $data);
                if (!$sent) {
                    self::lost();
                }
                $data = substr($data, $sent);
            }
        } catch (\TypeError) {
            // The solution has closed it.
            self::lost();
        }
    }

    private static function lost(): never
    {
        self::$over = true;
        exit(self::EXIT_CHANNEL_LOST);
    }

    private static function fail(string $category, string $name, string $message, string $cause): never
    {
        self::frame('X', self::strings($category, $name, $message, $cause));
        self::$over = true;
        exit(1);
    }

    /** Called when the program ends, however it ends: an error that nothing can catch is told here. */
    private static function ended(): void
    {
        self::$reserve = null;
        if (self::$over || getmypid() !== self::$owner) {
            return;
        }
        $last = error_get_last();
        if ($last === null || !($last['type'] & self::FATAL)) {
            return;
        }
        ini_set('memory_limit', '-1');
        $message = strtok($last['message'], "\n");
        $memory = preg_match('/^(Allowed memory size|Out of memory)/', $message);
        $compile = $last['type'] & self::UNPARSED && $last['file'] === self::$path;
        $where = $compile ? " (line {$last['line']})" : '';
        self::fail($compile ? 'compile' : 'load', 'Error', $message . $where, $memory ? 'memory' : '');
    }
}

Harness::begin();
try {
    require Harness::$path;
} catch (\Throwable $error) {
    Harness::failedToLoad($error);
}
Harness::answer();
