package calls

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"reflect"
	"sort"
	"unicode/utf8"
)

const (
	maxDepth = 100
	maxNodes = 1000000
	// What a set or dict weighs in values beside itself.
	mapWeight = 4
)

// A refusal says why a value has no encoding; it travels up as a panic that encodeResults ends.
type refusal string

// Bits of writer.numbers.
const (
	sawBool = 1 << iota
	sawInt
	sawFloat
	sawComplex
)

type writer struct {
	out   []byte
	nodes int
	// What numbers the keys of the current map hold: 1, 1.0 and true are one key in Python.
	numbers uint
}

// encodeResults encodes what a function returned: None, one value, or a tuple.
func encodeResults(values []reflect.Value) (encoded []byte, problem string) {
	defer func() {
		if caught := recover(); caught != nil {
			encoded, problem = nil, fmt.Sprint(caught)
		}
	}()
	w := &writer{}
	switch len(values) {
	case 0:
		w.out = append(w.out, 'N')
	case 1:
		w.put(values[0], 0, false)
	default:
		w.count(1)
		w.out = appendLength(append(w.out, 't'), len(values))
		for _, value := range values {
			w.put(value, 1, false)
		}
	}
	return w.out, ""
}

func appendLength(out []byte, number int) []byte {
	var buffer [binary.MaxVarintLen64]byte
	return append(out, buffer[:binary.PutUvarint(buffer[:], uint64(number))]...)
}

func (w *writer) count(more int) {
	w.nodes += more
	if w.nodes > maxNodes {
		panic(refusal(fmt.Sprintf("more than %d values", maxNodes)))
	}
}

func (w *writer) room(size int) {
	if len(w.out)+size > maxBytes {
		tooLarge()
	}
}

func tooLarge() {
	panic(refusal(fmt.Sprintf("larger than %d bytes", maxBytes)))
}

// put encodes v. Reading through reflection calls no method of v. A key must be something Python can hash.
func (w *writer) put(v reflect.Value, depth int, key bool) {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	w.count(1)
	switch v.Kind() {
	case reflect.Invalid:
		w.out = append(w.out, 'N')
	case reflect.Bool:
		w.numbers |= sawBool
		if v.Bool() {
			w.out = append(w.out, 'T')
		} else {
			w.out = append(w.out, 'F')
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.numbers |= sawInt
		w.small(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		w.numbers |= sawInt
		if number := v.Uint(); number < 1<<63 {
			w.small(int64(number))
		} else {
			w.large(new(big.Int).SetUint64(number))
		}
	case reflect.Float32, reflect.Float64:
		w.numbers |= sawFloat
		w.out = append(w.out, 'd')
		w.double(v.Float())
	case reflect.Complex64, reflect.Complex128:
		w.numbers |= sawComplex
		w.out = append(w.out, 'c')
		w.double(real(v.Complex()))
		w.double(imag(v.Complex()))
	case reflect.String:
		w.text(v.String())
	case reflect.Slice:
		w.slice(v, depth)
	case reflect.Array:
		w.array(v, depth, key)
	case reflect.Map:
		if key {
			w.refuse(v)
		}
		w.mapping(v, depth)
	case reflect.Ptr:
		w.pointer(v, depth, key)
	case reflect.Struct:
		if v.Type() != bigIntType {
			w.refuse(v)
		}
		number := v.Interface().(big.Int)
		w.numbers |= sawInt
		w.large(&number)
	default:
		w.refuse(v)
	}
	w.room(0)
}

func (w *writer) refuse(v reflect.Value) {
	panic(refusal(fmt.Sprintf("a value of type %s, which has no encoding", v.Type())))
}

func (w *writer) deeper(depth int) {
	if depth >= maxDepth {
		panic(refusal(fmt.Sprintf("nested deeper than %d, or a cycle", maxDepth)))
	}
}

func (w *writer) pointer(v reflect.Value, depth int, key bool) {
	w.nodes--
	if v.IsNil() {
		w.count(1)
		w.out = append(w.out, 'N')
		return
	}
	if key && v.Type().Elem() != bigIntType {
		w.refuse(v)
	}
	w.deeper(depth)
	w.put(v.Elem(), depth+1, key)
}

// small is Python's int.to_bytes over bit_length() // 8 + 1 bytes.
func (w *writer) small(number int64) {
	absolute := uint64(number)
	if number < 0 {
		absolute = -absolute
	}
	size := bits.Len64(absolute)/8 + 1
	w.out = append(w.out, 'i', byte(size))
	for i := 0; i < size; i++ {
		w.out = append(w.out, byte(number>>min(8*i, 63)))
	}
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func (w *writer) large(number *big.Int) {
	size := number.BitLen()/8 + 1
	w.room(size)
	unsigned := number
	if number.Sign() < 0 {
		unsigned = new(big.Int).Add(number, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	w.out = appendLength(append(w.out, 'i'), size)
	body := unsigned.FillBytes(make([]byte, size))
	for i := size - 1; i >= 0; i-- {
		w.out = append(w.out, body[i])
	}
}

func (w *writer) double(number float64) {
	pattern := math.Float64bits(number)
	if number != number {
		pattern = 0x7ff8 << 48
	}
	w.out = append(w.out, 0, 0, 0, 0, 0, 0, 0, 0)
	binary.BigEndian.PutUint64(w.out[len(w.out)-8:], pattern)
}

func (w *writer) text(text string) {
	w.room(len(text))
	tag := byte('b')
	if isText(text) {
		tag = 's'
	}
	w.out = append(appendLength(append(w.out, tag), len(text)), text...)
}

// isText holds for UTF-8 with surrogates let through, which is what Python makes a str of.
func isText(text string) bool {
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		if one, size := utf8.DecodeRuneInString(text[i:]); one != utf8.RuneError || size > 1 {
			i += size
			continue
		}
		if i+2 < len(text) && text[i] == 0xed && text[i+1]&0xe0 == 0xa0 && text[i+2]&0xc0 == 0x80 {
			i += 3
			continue
		}
		return false
	}
	return true
}

func (w *writer) slice(v reflect.Value, depth int) {
	if isBytes(v.Type()) {
		w.room(v.Len())
		w.out = append(appendLength(append(w.out, 'b'), v.Len()), v.Bytes()...)
		return
	}
	w.items(v, 'l', depth, false)
}

func (w *writer) array(v reflect.Value, depth int, key bool) {
	switch {
	case isBytes(v.Type()):
		w.room(v.Len())
		w.out = appendLength(append(w.out, 'b'), v.Len())
		for i := 0; i < v.Len(); i++ {
			w.out = append(w.out, byte(v.Index(i).Uint()))
		}
	case key:
		w.items(v, 't', depth, true)
	default:
		w.items(v, 'l', depth, false)
	}
}

func (w *writer) items(v reflect.Value, tag byte, depth int, key bool) {
	w.deeper(depth)
	count := v.Len()
	// Told before the first item: a program that made millions has spent its time on them already.
	w.count(count)
	w.nodes -= count
	w.out = appendLength(append(w.out, tag), count)
	for i := 0; i < count; i++ {
		w.put(v.Index(i), depth+1, key)
	}
}

func (w *writer) mapping(v reflect.Value, depth int) {
	w.deeper(depth)
	type entry struct {
		key   []byte
		value reflect.Value
	}
	tag, each := byte('m'), 2
	if v.Type().Elem() == noneType {
		tag, each = 'S', 1
	}
	w.count(mapWeight + each*v.Len())
	w.nodes -= each * v.Len()
	outer, numbers, size := w.out, w.numbers, len(w.out)
	entries := make([]entry, 0, v.Len())
	w.numbers = 0
	for all := v.MapRange(); all.Next(); {
		w.out = nil
		w.put(all.Key(), depth+1, true)
		entries = append(entries, entry{w.out, all.Value()})
		size += len(w.out)
		if size > maxBytes {
			tooLarge()
		}
	}
	if w.numbers&(w.numbers-1) != 0 {
		panic(refusal("keys that are numbers of several types"))
	}
	sort.Slice(entries, func(i, j int) bool { return bytes.Compare(entries[i].key, entries[j].key) < 0 })
	w.out, w.numbers = appendLength(append(outer, tag), len(entries)), numbers
	for i, one := range entries {
		if i > 0 && bytes.Equal(one.key, entries[i-1].key) {
			panic(refusal("keys that would be one key in Python"))
		}
		w.out = append(w.out, one.key...)
		if tag == 'm' {
			w.put(one.value, depth+1, false)
		}
	}
}
