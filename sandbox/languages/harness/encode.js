// Values to the bytes of sandbox/codec.py.
//
// In: `begin()`, then `put(value, 0, false)` or the smaller steps. Out: out[HEAD..at]. Wrong: `refuse` for a
// value without a counterpart and past the bounds of depth, number and size.

let out = new Bytes(1 << 16);
let at = HEAD;
let nodes = 0;

function begin() {
  at = HEAD;
  nodes = 0;
}

function room(size) {
  const end = at + size;
  if (end > MAX_BYTES + HEAD) refuse(`larger than ${MAX_BYTES} bytes`);
  if (end > out.length) {
    let capacity = out.length * 2;
    while (capacity < end) capacity *= 2;
    const larger = new Bytes(capacity);
    bytesSet(larger, out);
    out = larger;
  }
}

function putByte(byte) {
  if (at >= out.length) room(1);
  out[at++] = byte;
}

function putLength(number) {
  room(5);
  while (number > 127) {
    out[at++] = (number & 127) | 128;
    number >>>= 7;
  }
  out[at++] = number;
}

const doubles = new Float64Array(1);
const doubleBytes = new Bytes(doubles.buffer);

function putDouble(number) {
  doubles[0] = number === number ? number : NaN;
  room(8);
  for (let index = 7; index >= 0; index--) out[at++] = doubleBytes[index];
  if (number !== number) {
    // Every NaN is one NaN, whatever bits it had.
    out[at - 8] = 0x7f;
    out[at - 7] = 0xf8;
    for (let index = at - 6; index < at; index++) out[index] = 0;
  }
}

function putInteger(number) {
  const size = number < 0 ? -number : number;
  const high = (size - (size >>> 0)) / 4294967296;
  const bits = high ? 64 - clz32(high) : 32 - clz32(size);
  const count = (bits >>> 3) + 1;
  putByte(0x69);
  putLength(count);
  room(count);
  // Two's complement of -n is the complement of n - 1.
  let rest = number < 0 ? size - 1 : size;
  const flip = number < 0 ? 255 : 0;
  for (let index = 0; index < count; index++) {
    const low = rest % 256;
    out[at++] = low ^ flip;
    rest = (rest - low) / 256;
  }
}

function putBig(number) {
  const negative = number < 0n;
  const size = negative ? -number : number;
  const hex = bigToString(size, 16);
  const count = ((hex.length * 4 - (clz32(digit(hex, 0)) - 28)) >>> 3) + 1;
  const shown = negative ? bigToString(size - 1n, 16) : hex;
  putByte(0x69);
  putLength(count);
  room(count);
  const flip = negative ? 255 : 0;
  for (let index = 0, place = shown.length - 1; index < count; index++, place -= 2) {
    const low = place >= 0 ? digit(shown, place) : 0;
    const next = place >= 1 ? digit(shown, place - 1) : 0;
    out[at++] = (low | (next << 4)) ^ flip;
  }
}

function digit(hex, index) {
  const code = charCodeAt(hex, index);
  return code < 58 ? code - 48 : code - 87;
}

function putString(text) {
  const length = text.length;
  let size = 0;
  for (let index = 0; index < length; index++) {
    const code = charCodeAt(text, index);
    if (code < 0x80) size += 1;
    else if (code < 0x800) size += 2;
    else if (pairAt(text, index, code)) (size += 4), index++;
    else size += 3;
  }
  putByte(0x73);
  putLength(size);
  room(size);
  let place = at;
  for (let index = 0; index < length; index++) {
    let code = charCodeAt(text, index);
    if (code < 0x80) {
      out[place++] = code;
    } else if (code < 0x800) {
      out[place++] = 0xc0 | (code >> 6);
      out[place++] = 0x80 | (code & 63);
    } else if (pairAt(text, index, code)) {
      code = 0x10000 + ((code - 0xd800) << 10) + (charCodeAt(text, ++index) - 0xdc00);
      out[place++] = 0xf0 | (code >> 18);
      out[place++] = 0x80 | ((code >> 12) & 63);
      out[place++] = 0x80 | ((code >> 6) & 63);
      out[place++] = 0x80 | (code & 63);
    } else {
      out[place++] = 0xe0 | (code >> 12);
      out[place++] = 0x80 | ((code >> 6) & 63);
      out[place++] = 0x80 | (code & 63);
    }
  }
  at = place;
}

function pairAt(text, index, code) {
  if (code < 0xd800 || code > 0xdbff || index + 1 >= text.length) return false;
  const next = charCodeAt(text, index + 1);
  return next >= 0xdc00 && next <= 0xdfff;
}

// `key`: the value is a dict's key or a set's element, or inside one, where Python wants hashable types.
function put(value, depth, key) {
  if (++nodes > MAX_NODES) refuse(`more than ${MAX_NODES} values`);
  switch (typeof value) {
    case "number":
      if (isSafeInteger(value) && (value !== 0 || 1 / value > 0)) return putInteger(value);
      putByte(0x64);
      return putDouble(value);
    case "string":
      if (value.length > MAX_BYTES) refuse(`larger than ${MAX_BYTES} bytes`);
      return putString(value);
    case "boolean":
      return putByte(value ? 0x54 : 0x46);
    case "undefined":
      return putByte(0x4e);
    case "bigint":
      return putBig(value);
    case "object":
      return value === null ? putByte(0x4e) : putObject(value, depth, key);
    default:
      return refuse(`a value of type ${typeof value}, which has no encoding`);
  }
}

function putObject(value, depth, key) {
  if (isProxy(value)) refuse("a Proxy");
  const prototype = getPrototypeOf(value);
  if (isArray(value)) {
    if (prototype !== ArrayPrototype) refuse("an object of a subclass of Array");
    return putArray(value, depth, key);
  }
  if (isUint8Array(value) && (prototype === BytesPrototype || prototype === BufferPrototype)) {
    const size = bytesSize(value);
    if (size > MAX_BYTES) refuse(`larger than ${MAX_BYTES} bytes`);
    putByte(0x62);
    putLength(size);
    room(size);
    bytesSet(out, value, at);
    at += size;
    return;
  }
  if (isSet(value) && prototype === SetPrototype) return putSet(value, depth, key);
  if (isMap(value) && prototype === MapPrototype) {
    if (key) refuse("a Map as a key or element");
    return putMap(value, depth);
  }
  if ((prototype === ObjectPrototype && !isArgumentsObject(value)) || prototype === null) {
    if (key) refuse("an object as a key or element");
    return putPlain(value, depth);
  }
  refuse(`an object of class ${className(value)}, which has no encoding`);
}

function open(tag, count, weight, depth) {
  // A cycle has no end, so this bound finds it too.
  if (depth >= MAX_DEPTH) refuse(`nested deeper than ${MAX_DEPTH}, or a cycle`);
  if (nodes + count > MAX_NODES) refuse(`more than ${MAX_NODES} values`);
  nodes += weight;
  putByte(tag);
  putLength(count);
}

function putArray(value, depth, key) {
  const length = value.length;
  open(key ? 0x74 : 0x6c, length, 0, depth);
  for (let index = 0; index < length; index++) {
    const own = getOwnPropertyDescriptor(value, index);
    if (own === undefined) put(undefined, depth + 1, key);
    else if (hasOwn(own, "value")) put(own.value, depth + 1, key);
    else refuse("an array with an accessor");
  }
}

function putPlain(value, depth) {
  const keys = ownKeys(value);
  let count = keys.length;
  for (let index = 0; index < keys.length; index++) {
    if (typeof keys[index] !== "string") refuse("an object with a symbol for a key");
    const own = getOwnPropertyDescriptor(value, keys[index]);
    if (!own.enumerable) count--;
    else if (!hasOwn(own, "value")) refuse("an object with an accessor");
  }
  open(0x6d, count, 4, depth);
  if (nodes + 2 * count > MAX_NODES) refuse(`more than ${MAX_NODES} values`);
  for (let index = 0; index < keys.length; index++) {
    const own = getOwnPropertyDescriptor(value, keys[index]);
    if (!own.enumerable) continue;
    put(keys[index], depth + 1, true);
    put(own.value, depth + 1, false);
  }
}

// Keys that differ here and are one in Python: 1 and true, null and undefined, 2**60 and 2n**60n.
function putKey(key, depth, seen) {
  const start = at;
  put(key, depth, true);
  let known;
  switch (typeof key) {
    case "boolean":
      known = key ? 1 : 0;
      break;
    case "bigint":
      known = key;
      break;
    case "number":
      known = key;
      break;
    case "string":
      known = "s" + key;
      break;
    default:
      known = "";
      for (let index = start; index < at; index++) known += fromCharCode(out[index]);
  }
  if (typeof known === "number" && isInteger(known)) known = BigIntOf(known);
  if (setHas(seen, known)) refuse("two keys or elements that are equal in Python");
  setAdd(seen, known);
}

function putMap(value, depth) {
  const seen = new SetOf();
  const count = mapSize(value);
  open(0x6d, count, 4, depth);
  if (nodes + 2 * count > MAX_NODES) refuse(`more than ${MAX_NODES} values`);
  mapForEach(value, (item, key) => {
    putKey(key, depth + 1, seen);
    put(item, depth + 1, false);
  });
}

function putSet(value, depth, key) {
  const count = setSize(value);
  open(key ? 0x5a : 0x53, count, 4, depth);
  const seen = new SetOf();
  const first = at;
  const starts = new Indices(count + 1);
  const order = new Indices(count);
  let index = 0;
  setForEach(value, (item) => {
    starts[index] = at;
    order[index] = index++;
    putKey(item, depth + 1, seen);
  });
  starts[count] = at;
  sortIndices(order, (left, right) => {
    let a = starts[left], b = starts[right];
    const aEnd = starts[left + 1], bEnd = starts[right + 1];
    for (; a < aEnd && b < bEnd; a++, b++) if (out[a] !== out[b]) return out[a] - out[b];
    return aEnd - a - (bEnd - b);
  });
  const sorted = new Bytes(at - first);
  let place = 0;
  for (let index = 0; index < count; index++) {
    const start = starts[order[index]];
    const part = new Bytes(out.buffer, start, starts[order[index] + 1] - start);
    bytesSet(sorted, part, place);
    place += part.length;
  }
  bytesSet(out, sorted, first);
}
