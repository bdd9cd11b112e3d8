using System;
using System.Collections.Generic;
namespace Geo {
  abstract class Shape { protected Shape(string n) { Name = n; } public string Name { get; set; } public abstract double Area(); }
  class Sq : Shape { readonly double n; public Sq(double n) : base("sq") { this.n = n; } public override double Area() => n * n; public double Side { get { return n; } } public double Twice => n * 2;
    public static Sq operator +(Sq a, Sq b) { return new Sq(a.n + b.n); } public static implicit operator double(Sq s) { return s.n; } public double this[int i] { get { return n; } set { } } 
    public IEnumerable<int> All(int k) { yield return k; } }
  static class Program {
    static int Add(int a) => a + 1;
    static int Add(ref int a, params int[] b) { a++; return a; }
    static void Main() { var s = new Sq(3) + new Sq(1); int q = 1; Console.WriteLine(s.Area() + Add(1) + Add(ref q, 1, 2) + s[1]); }
  }
}
