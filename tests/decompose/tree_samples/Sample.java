import java.util.*;
import java.util.function.*;
public class Sample {
    static final int K = 3;
    final int x;
    Sample(int x) { this.x = x; }
    Sample() { this(1); helper(1); }
    static int helper(int a) { return a + K; }
    static int helper(int a, int b) { return helper(a) + b; }
    <T extends Comparable<T>> T most(List<T> xs) throws Exception {
        Function<T, T> f = y -> y;
        return f.apply(Collections.max(xs));
    }
    interface Shape { double area(); default String show() { return "" + area(); } }
    record Sq(double n) implements Shape { Sq { if (n < 0) throw new IllegalArgumentException(); } public double area() { return n * n; } }
    enum Op { ADD { int go(int a, int b) { return a + b; } }; abstract int go(int a, int b); }
    static class Base { final int z; Base(int z) { this.z = z; } }
    static class Derived extends Base { final int w; Derived(int z) { super(z); this.w = z; } }
    public static void main(String[] args) throws Exception { System.out.println(helper(1, 2) + new Sq(2).show() + new Sample().most(List.of(1, 2)) + Op.ADD.go(1, 2)); }
}
