#include <stdio.h>
struct node { int v; struct node *next; };
static int later(int x);
static int *ptr(int *a) { return a; }
int later(int x) { return x + 1; }
static struct node make(int v) { struct node n = { v, 0 }; return n; }
static int cmp(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) { int a[2] = {1, 2}; printf("%d %d\n", later(*ptr(a)), make(3).v + cmp(a, a)); return 0; }
