#include <iostream>
#include <string>
namespace geo {
struct Base { int z; explicit Base(int z) : z(z) {} virtual ~Base() {} virtual int area() const = 0; };
template <typename T> class Stack { T items[10]; int n = 0; public: void push(const T& x) { items[n++] = x; } T pop(); bool operator<(const Stack& o) const { return n < o.n; } explicit operator bool() const noexcept { return n > 0; } };
template <typename T> T Stack<T>::pop() { return items[--n]; }
class Sq : public Base { const int& r; public: Sq(int& q) : Base(q), r(q) { } int area() const override { return r * r; } friend std::ostream& operator<<(std::ostream& o, const Sq& s) { return o << s.r; } };
}
int add(int a, int b = 2) { return a + b; }
double add(double a, double b) { return a + b; }
static auto twice(int x) -> int { auto f = [](int y) { return 2 * y; }; return f(x); }
int main() { int q = 3; geo::Sq s(q); geo::Stack<int> t; t.push(1); std::cout << s << s.area() << add(1) << add(1.0, 2.0) << twice(2) << t.pop() << "\n"; }
