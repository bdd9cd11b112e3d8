// Answers a job of kind "calls" for JavaScript, and for TypeScript once its types are off.
//
// In: node calls.js CALLS RESULTS SOLUTION ENTRY (a file, a descriptor, an absolute path, a name); the
// contract is that of sandbox/languages/base.py. Out: frames on RESULTS.
// Wrong: a value without a counterpart is refused for its call alone (arguments: an error "ArgumentError";
// results: b"u"); a solution that does not parse, load or have the function is a FAILURE frame.
//
//   from Python                       here                         to Python
//   None                              null, undefined, array hole  None
//   bool                              boolean                      bool
//   int up to 2**53 - 1 in size       number, integral, safe       int (so that 2.0 comes back as 2)
//   other int                         bigint                       int
//   float                             other number, and -0         float
//   str                               string                       str
//   bytes, bytearray                  Uint8Array (or Buffer)       bytes
//   list, tuple, range, deque         Array                        list; as a key or set element, tuple
//   set, frozenset                    Set                          set; as a key or set element, frozenset
//   dict with str keys only           plain object                 dict
//   other dict                        Map                          dict
//   complex, Decimal, Fraction, dates and times: refused
//
// A str that spells one character as two surrogates comes back as the character. As a key or set element -0
// is 0, and NaN is there once. An object is plain when its prototype is Object.prototype or null; class
// instances, functions, symbols, proxies and accessors have no encoding. A promise is awaited.

const MAX_MESSAGE = 1000;
const EXIT_CHANNEL_LOST = 71;
const READY = 0x52, OUTPUT = 0x4f, DONE = 0x44, FAILURE = 0x58;
const VALUE = 0x76, ERROR = 0x65, UNENCODABLE = 0x75;

// -- frames

let nonce;
let descriptor;

function send(kind) {
  for (let index = 0; index < 8; index++) out[index] = nonce[index];
  out[8] = kind;
  const size = at - HEAD;
  for (let index = 0; index < 4; index++) out[9 + index] = (size >>> (8 * index)) & 255;
  let sent = 0;
  while (sent < at) {
    try {
      sent += writeSync(descriptor, out, sent, at - sent);
    } catch (error) {
      if (!isObject(error) || dataProperty(error, "code", true) !== "EAGAIN") leave(EXIT_CHANNEL_LOST);
    }
  }
}

function leave(code) {
  apply(reallyExit, process, [code]);
}

function putStrings(first, second, third, fourth) {
  putByte(0x6c);
  putLength(fourth === undefined ? 3 : 4);
  putString(first);
  putString(second);
  putString(third);
  if (fourth !== undefined) putString(fourth);
}

function sendError(name, message, cause) {
  begin();
  putByte(ERROR);
  putStrings(name, sliceString(message, 0, MAX_MESSAGE), cause);
  send(OUTPUT);
}

function sendFailure(category, name, message, cause) {
  begin();
  putStrings(category, name, sliceString(message, 0, MAX_MESSAGE), cause);
  send(FAILURE);
}

function sendValue(value) {
  begin();
  try {
    putByte(VALUE);
    put(value, 0, false);
  } catch (error) {
    const why = error === REFUSED ? refusal : "too large or too deep for this process";
    begin();
    putByte(UNENCODABLE);
    putStrings(className(value), why, "");
  }
  send(OUTPUT);
}

// -- errors, described without a look at anything that could be a getter

const BUILTIN_ERRORS = new MapOf();
for (const kind of [
  Error, AggregateError, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError,
]) {
  BUILTIN_ERRORS.set(kind.name, kind);
}
// No classes of this language, but names that this file gives to errors of its own: nobody may bear them.
for (const name of ["ArgumentError", "PromiseNeverSettled"]) BUILTIN_ERRORS.set(name, {});
const builtinError = uncurry(MapPrototype.get);
const isBuiltinError = uncurry(MapPrototype.has);

function dataProperty(value, key, ownToo) {
  let holder = ownToo ? value : isProxy(value) ? null : getPrototypeOf(value);
  for (let steps = 0; holder !== null && steps < 100; steps++) {
    if (isProxy(holder)) return undefined;
    const own = getOwnPropertyDescriptor(holder, key);
    if (own !== undefined) return hasOwn(own, "value") ? own.value : undefined;
    holder = getPrototypeOf(holder);
  }
  return undefined;
}

function isObject(value) {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

function constructorOf(value) {
  const made = dataProperty(value, "constructor", false);
  return isObject(made) ? made : null;
}

function className(value) {
  if (!isObject(value)) return value === null ? "null" : typeof value;
  if (isProxy(value)) return "Proxy";
  if (typeof value === "function") return "function";
  const kind = constructorOf(value);
  const name = kind === null ? undefined : dataProperty(kind, "name", true);
  return typeof name === "string" && name ? sliceString(name, 0, 100) : "object";
}

function errorName(error) {
  if (!isObject(error) || isProxy(error)) return className(error);
  const own = getOwnPropertyDescriptor(error, "name");
  const given = own !== undefined && hasOwn(own, "value") ? own.value : undefined;
  const name = typeof given === "string" && given ? sliceString(given, 0, 100) : className(error);
  // Only the language's own classes may bear their names.
  const real = isBuiltinError(BUILTIN_ERRORS, name);
  return real && builtinError(BUILTIN_ERRORS, name) !== constructorOf(error) ? `own.${name}` : name;
}

function errorMessage(error) {
  switch (typeof error) {
    case "string":
      return error;
    case "number":
    case "boolean":
    case "bigint":
      return `${error}`;
    default: {
      const message = isObject(error) ? dataProperty(error, "message", true) : "";
      return typeof message === "string" ? message : "";
    }
  }
}

function errorCause(error) {
  if (!isObject(error) || isProxy(error)) return "";
  const message = errorMessage(error);
  const code = dataProperty(error, "code", true);
  const syscall = dataProperty(error, "syscall", true);
  if (message === "Array buffer allocation failed") return "memory";
  if (code === "ERR_MEMORY_ALLOCATION_FAILED") return "memory";
  const spawning = typeof syscall === "string" && startsWith(syscall, "spawn");
  return (code === "EAGAIN" && spawning) || code === "ERR_WORKER_INIT_FAILED" ? "processes" : "";
}

function fail(category, error) {
  sendFailure(category, errorName(error), errorMessage(error), errorCause(error));
}

// -- the calls, one after another

// Running: code of the solution is at work. Only in one of the two waits may the event loop come to rest.
const RUNNING = 0, AWAITING_MODULE = 1, AWAITING_CALL = 2, OVER = 3;
let state = RUNNING;
let calls;
let count = 0;
let next = 0;
let place = 12;
let target;

function advance() {
  while (next < count) {
    const mine = ++next;
    const start = place + 4;
    place = start + fourBytes(place);
    let args;
    try {
      args = argumentsOf(decode(calls, start));
    } catch (error) {
      sendError("ArgumentError", error === REFUSED ? refusal : "too large for this process", "");
      continue;
    }
    let value;
    state = RUNNING;
    try {
      value = apply(target, undefined, args);
      if (isPromise(value)) {
        then(value, (made) => settle(mine, true, made), (error) => settle(mine, false, error));
        state = AWAITING_CALL;
        return;
      }
    } catch (error) {
      sendError(errorName(error), errorMessage(error), errorCause(error));
      continue;
    }
    sendValue(value);
  }
  state = OVER;
  begin();
  putInteger(0);
  send(DONE);
  leave(0);
}

function fourBytes(start) {
  let number = 0;
  for (let index = 3; index >= 0; index--) number = number * 256 + calls[start + index];
  return number;
}

function settle(mine, kept, value) {
  if (state !== AWAITING_CALL || mine !== next) return;
  state = RUNNING;
  if (kept) sendValue(value);
  else sendError(errorName(value), errorMessage(value), errorCause(value));
  advance();
}

function argumentsOf(pair) {
  const kwargs = pair[1];
  if (isMap(kwargs) || ownKeys(kwargs).length > 0) refuse("JavaScript has no keyword arguments");
  return pair[0];
}

function onIdle() {
  if (state === AWAITING_CALL) {
    state = RUNNING;
    sendError("PromiseNeverSettled", "the program came to rest while its promise was pending", "");
    // Only a loop that has something to do comes to rest again.
    if (next < count) later(() => {});
    advance();
  } else if (state === AWAITING_MODULE) {
    state = OVER;
    sendFailure("load", "PromiseNeverSettled", "the program came to rest in a top-level await", "");
    leave(1);
  }
}

function onUncaught(error) {
  if (state === OVER) return;
  // A program that catches such errors goes on.
  if (listenerCount(process, "uncaughtException") > 0) return;
  state = OVER;
  fail("load", error);
}

// -- loading

// What V8 says of the syntax that only a module may have.
const MODULE_SYNTAX = [
  "Cannot use import statement outside a module",
  "Unexpected token 'export'",
  "Cannot use 'import.meta' outside a module",
  "await is only valid in async functions and the top level bodies of modules",
  "Unexpected reserved word",
];

function load(path, entry) {
  const builtin = globalThis[entry];
  let inside;
  // The planner has the solution's last line hand over a look at its own scope.
  defineProperty(globalThis, "__sandbox_take__", {
    __proto__: null, configurable: true, value: (look) => void (inside ??= look),
  });
  const start = (exports) => {
    state = RUNNING;
    delete globalThis.__sandbox_take__;
    const found = find(exports, entry, inside, builtin);
    if (typeof found !== "function") {
      sendFailure("missing", "ReferenceError", `the solution has no function '${entry}'`, "");
      return leave(1);
    }
    target = found;
    begin();
    send(READY);
    advance();
  };
  let compiled = null;
  if (!declaredModule(path)) {
    try {
      compiled = compile(path);
    } catch (error) {
      if (!needsModule(error)) return stop("compile", error, path);
    }
  }
  if (compiled === null) {
    state = AWAITING_MODULE;
    const loaded = import(pathToFileURL(path).href);
    return then(loaded, start, (error) => {
      if (unparsed(error, path)) stop("compile", error, path);
      else stop("load", error, "");
    });
  }
  const { run, module, require } = compiled;
  try {
    apply(run, module.exports, [module.exports, require, module, path, dirname(path)]);
  } catch (error) {
    return stop("load", error, "");
  }
  module.loaded = true;
  start(module.exports);
}

function stop(category, error, path) {
  state = OVER;
  // The stack of a syntax error begins with the place where it is.
  const stack = path ? stackOf(error) : "";
  const start = indexOf(stack, `${path}:`) + path.length + 1;
  const line = Number.parseInt(sliceString(stack, start, start + 9), 10);
  const where = start > path.length ? ` (line ${line})` : "";
  sendFailure(category, errorName(error), errorMessage(error) + where, errorCause(error));
  leave(1);
}

function stackOf(error) {
  try {
    const stack = error.stack;
    return typeof stack === "string" ? stack : "";
  } catch {
    return "";
  }
}

function compile(path) {
  const source = readFileSync(path, "utf8");
  const options = { filename: path };
  const loader = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER;
  if (loader) options.importModuleDynamically = loader;
  const names = ["exports", "require", "module", "__filename", "__dirname"];
  let run;
  try {
    run = vm.compileFunction(source, names, options);
  } catch (error) {
    // The solution's own error, where it has one, not one of the line that the planner put below it.
    vm.compileFunction(source.slice(0, source.lastIndexOf("\n")), names, options);
    throw error;
  }
  const solution = new Module(path, module);
  solution.filename = path;
  solution.paths = Module._nodeModulePaths(dirname(path));
  Module._cache[path] = solution;
  return { run, module: solution, require: Module.createRequire(path) };
}

function declaredModule(path) {
  try {
    return JSON.parse(readFileSync(`${dirname(path)}/package.json`, "utf8")).type === "module";
  } catch {
    return false;
  }
}

function needsModule(error) {
  return error instanceof SyntaxError && MODULE_SYNTAX.some((text) => error.message.startsWith(text));
}

// A syntax error of the text itself has no line of the solution on its stack.
function unparsed(error, path) {
  if (constructorOf(error) !== builtinError(BUILTIN_ERRORS, "SyntaxError")) return false;
  const stack = stackOf(error);
  const frames = indexOf(stack, "\n    at ");
  return frames < 0 || indexOf(stack, dirname(path), frames) < 0;
}

function find(exports, entry, inside, builtin) {
  const exported = member(exports, entry);
  if (exported) return exported;
  try {
    const value = inside?.();
    if (typeof value === "function" && value !== builtin) return value;
  } catch {
    // A `const` whose initialiser was never reached.
  }
  if (typeof exports === "function") return exports;
  const standard = isObject(exports) ? exports.default : undefined;
  return typeof standard === "function" ? standard : member(standard, entry);
}

function member(holder, entry) {
  const value = isObject(holder) ? holder[entry] : undefined;
  return typeof value === "function" && value !== ObjectPrototype[entry] ? value : undefined;
}

function main() {
  const [node, , callsPath, results, path, entry] = process.argv;
  calls = new Bytes(readFileSync(callsPath));
  unlinkSync(callsPath);
  nonce = new Bytes(calls.buffer, 0, 8);
  descriptor = Number(results);
  count = fourBytes(8);
  process.argv = [node, path];
  process.on("beforeExit", onIdle);
  process.on("uncaughtExceptionMonitor", onUncaught);
  load(path, entry);
}

main();
