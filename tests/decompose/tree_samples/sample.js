'use strict';
const fs = require('fs');
class Shape {
  #n = 1;
  constructor(name) { this.name = name; }
  get area() { return 0; }
  static of(n) { return new Square(n); }
  *sides() { yield 1; }
}
class Square extends Shape {
  constructor(n) { super('square'); this.n = n; }
  get area() { return this.n ** 2; }
  grow = (k) => { this.n *= k; return this; };
}
const twice = (x) => x * 2;
const pair = x => ({ a: x });
async function later(x) { return await x; }
function main() { console.log(Shape.of(3).grow(2).area, twice(4)); }
main();
