package main

import (
	"fmt"
	"strings"
)

type Stack[T any] struct{ items []T }

// Push adds.
func (s *Stack[T]) Push(x T) { s.items = append(s.items, x) }
func (s Stack[T]) Len() int  { return len(s.items) }

func Map[T, U any](xs []T, f func(T) U) (out []U, err error) {
	for _, x := range xs {
		out = append(out, f(x))
	}
	return
}

func up(s string) string { return strings.ToUpper(s) }

func main() {
	s := &Stack[string]{}
	s.Push("a")
	fmt.Println(Map(s.items, up))
}
