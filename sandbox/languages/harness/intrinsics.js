// What the other parts need of the language and of Node.js, taken before the solution can replace it.
//
// The harness is intrinsics.js, encode.js, decode.js and calls.js, put one after another into one file so
// that they share a scope which nothing outside can reach. No method of a value is ever called, and no
// property is read that could be a getter.
"use strict";

const { bind, call } = Function.prototype;
const uncurry = bind.bind(call); // uncurry(method)(self, ...arguments), with no look-up later on

const fs = require("fs");
const vm = require("vm");
const Module = require("module");
const { dirname } = require("path");
const { pathToFileURL } = require("url");
const { isArgumentsObject, isMap, isPromise, isProxy, isSet, isUint8Array } = require("util").types;

const { readFileSync, unlinkSync, writeSync } = fs;
const { apply, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
const { isArray } = Array;
const { clz32 } = Math;
const { isSafeInteger, isInteger } = Number;
const { fromCharCode } = String;
const { reallyExit } = process;
const later = setImmediate;
const BigIntOf = BigInt;
const Bytes = Uint8Array;
const MapOf = Map;
const SetOf = Set;
const Indices = Uint32Array;
const ArrayPrototype = Array.prototype;
const BufferPrototype = Buffer.prototype;
const BytesPrototype = Uint8Array.prototype;
const MapPrototype = Map.prototype;
const ObjectPrototype = Object.prototype;
const SetPrototype = Set.prototype;
const hasOwn = uncurry(ObjectPrototype.hasOwnProperty);
const charCodeAt = uncurry(String.prototype.charCodeAt);
const sliceString = uncurry(String.prototype.slice);
const indexOf = uncurry(String.prototype.indexOf);
const startsWith = uncurry(String.prototype.startsWith);
const bigToString = uncurry(BigInt.prototype.toString);
const mapForEach = uncurry(MapPrototype.forEach);
const mapSet = uncurry(MapPrototype.set);
const mapSize = uncurry(getOwnPropertyDescriptor(MapPrototype, "size").get);
const setAdd = uncurry(SetPrototype.add);
const setForEach = uncurry(SetPrototype.forEach);
const setHas = uncurry(SetPrototype.has);
const setSize = uncurry(getOwnPropertyDescriptor(SetPrototype, "size").get);
const bytesSet = uncurry(BytesPrototype.set);
const bytesSize = uncurry(getOwnPropertyDescriptor(getPrototypeOf(BytesPrototype), "length").get);
const sortIndices = uncurry(Indices.prototype.sort);
const then = uncurry(Promise.prototype.then);
const listenerCount = uncurry(require("events").prototype.listenerCount);
const decodeUtf8 = uncurry(TextDecoder.prototype.decode);
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const MAX_DEPTH = 100;
const MAX_NODES = 1000000;
const MAX_BYTES = 64 * 1024 * 1024;
// Room before an encoding for a frame's head.
const HEAD = 13;

// Thrown where a value is refused, and caught by the harness alone; the reason is in `refusal`.
const REFUSED = { __proto__: null };
let refusal = "";
function refuse(why) {
  refusal = why;
  throw REFUSED;
}
