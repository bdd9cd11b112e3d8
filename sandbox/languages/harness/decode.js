// The bytes of sandbox/codec.py to values.
//
// In: `decode(bytes, start)`, where bytes holds what that codec made. Out: a value that shares nothing with
// any other. Wrong: `refuse` for a type without a counterpart.

let data;
let from = 0;
let end = 0;
let plainArrays = true;

function take(depth) {
  const tag = data[from++];
  if (++nodes > MAX_NODES) refuse(`more than ${MAX_NODES} values`);
  switch (tag) {
    case 0x69:
      return takeInteger();
    case 0x73:
      return takeString();
    case 0x4e:
      return null;
    case 0x54:
      return true;
    case 0x46:
      return false;
    case 0x64:
      for (let index = 7; index >= 0; index--) doubleBytes[index] = data[from++];
      return doubles[0];
    case 0x6c:
    case 0x74:
    case 0x71:
      return takeArray(depth);
    case 0x53:
    case 0x5a: {
      const made = new SetOf();
      for (let left = takeLength(); left > 0; left--) setAdd(made, take(depth + 1));
      return made;
    }
    case 0x6d:
    case 0x6f:
    case 0x6b:
    case 0x66:
      return takeMapping(depth);
    case 0x62:
    case 0x61: {
      const size = takeLength();
      const made = new Bytes(size);
      bytesSet(made, new Bytes(data.buffer, data.byteOffset + from, size));
      from += size;
      return made;
    }
    case 0x72:
      return takeRange();
    default:
      return refuse(`an argument of Python's type ${foreign(tag)}, which JavaScript has no counterpart for`);
  }
}

function foreign(tag) {
  switch (tag) {
    case 0x63: return "complex";
    case 0x44: return "Decimal";
    case 0x51: return "Fraction";
    case 0x65: return "timedelta";
    case 0x79: return "date";
    case 0x77: return "datetime";
    case 0x75: return "time";
    default: return "?";
  }
}

function takeLength() {
  let number = 0, scale = 1, byte;
  do {
    byte = data[from++];
    number += (byte & 127) * scale;
    scale *= 128;
  } while (byte > 127);
  return number;
}

const HEX = "0123456789abcdef";

function takeInteger() {
  const size = takeLength();
  const start = from;
  from += size;
  const negative = data[from - 1] > 127;
  if (size <= 7) {
    let number = 0;
    for (let place = from - 1; place >= start; place--) {
      number = number * 256 + (negative ? 255 - data[place] : data[place]);
    }
    // Beyond 2**53 the sum may be rounded, but never into the safe range.
    number = negative ? -number - 1 : number;
    if (isSafeInteger(number)) return number;
  }
  let hex = "0x";
  for (let place = from - 1; place >= start; place--) {
    const byte = negative ? 255 - data[place] : data[place];
    hex += HEX[byte >> 4] + HEX[byte & 15];
  }
  return negative ? -BigIntOf(hex) - 1n : BigIntOf(hex);
}

function takeString() {
  const size = takeLength();
  const start = from;
  from += size;
  if (size >= 32) {
    try {
      return decodeUtf8(utf8, new Bytes(data.buffer, data.byteOffset + start, size));
    } catch {
      // It holds lone surrogates.
    }
  }
  let text = "";
  for (let place = start; place < from; ) {
    const byte = data[place++];
    if (byte < 0x80) {
      text += fromCharCode(byte);
    } else if (byte < 0xe0) {
      text += fromCharCode(((byte & 31) << 6) | (data[place++] & 63));
    } else if (byte < 0xf0) {
      text += fromCharCode(((byte & 15) << 12) | ((data[place++] & 63) << 6) | (data[place++] & 63));
    } else {
      const high = ((byte & 7) << 18) | ((data[place++] & 63) << 12);
      const code = (high | ((data[place++] & 63) << 6) | (data[place++] & 63)) - 0x10000;
      text += fromCharCode(0xd800 + (code >> 10)) + fromCharCode(0xdc00 + (code & 1023));
    }
  }
  return text;
}

function define(target, key, value) {
  defineProperty(target, key, {
    __proto__: null, value, writable: true, enumerable: true, configurable: true,
  });
}

function append(target, index, value) {
  // Plain assignment is fifty times faster, and runs a setter that the solution may have put on a prototype.
  if (plainArrays) target[index] = value;
  else define(target, index, value);
}

function takeArray(depth) {
  const count = takeLength();
  const made = [];
  for (let index = 0; index < count; index++) append(made, index, take(depth + 1));
  return made;
}

function takeRange() {
  const parts = { __proto__: null, start: 0, stop: 0, step: 0 };
  for (const name in parts) {
    from++;
    parts[name] = takeInteger();
    if (typeof parts[name] !== "number") refuse("a range beyond 2**53");
  }
  const { start, stop, step } = parts;
  const count = step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
  if (nodes + count > MAX_NODES) refuse(`a range of more than ${MAX_NODES} values`);
  const made = [];
  for (let value = start, index = 0; step > 0 ? value < stop : value > stop; value += step, index++) {
    append(made, index, value);
  }
  nodes += made.length;
  return made;
}

function takeMapping(depth) {
  let count = takeLength();
  const pairs = new MapOf();
  let strings = true;
  for (; count > 0; count--) {
    const key = take(depth + 1);
    if (typeof key !== "string") strings = false;
    mapSet(pairs, key, take(depth + 1));
  }
  if (!strings) return pairs;
  const made = {};
  mapForEach(pairs, (value, key) => {
    if (key in ObjectPrototype) define(made, key, value);
    else made[key] = value;
  });
  return made;
}

function noIndexOn(prototype) {
  // Keys that are indices come first.
  const keys = ownKeys(prototype);
  return keys.length === 0 || typeof keys[0] !== "string" || !(charCodeAt(keys[0], 0) < 58);
}

function decode(bytes, start) {
  data = bytes;
  from = start;
  nodes = 0;
  plainArrays =
    getPrototypeOf(ArrayPrototype) === ObjectPrototype &&
    noIndexOn(ArrayPrototype) &&
    noIndexOn(ObjectPrototype);
  return take(0);
}
