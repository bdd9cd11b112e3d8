package calls

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"reflect"
)

// What a tag of sandbox/codec.py is called in Python, for messages.
var pythonNames = map[byte]string{
	'N': "None", 'T': "bool", 'F': "bool", 'i': "int", 'd': "float", 'c': "complex", 's': "str", 'b': "bytes",
	'a': "bytearray", 'l': "list", 't': "tuple", 'm': "dict", 'o': "OrderedDict", 'k': "Counter",
	'f': "defaultdict", 'S': "set", 'Z': "frozenset", 'q': "deque", 'r': "range", 'D': "Decimal",
	'Q': "Fraction", 'e': "timedelta", 'y': "date", 'w': "datetime", 'u': "time",
}

var (
	bigIntType = reflect.TypeOf(big.Int{})
	anyType    = reflect.TypeOf((*interface{})(nil)).Elem()
	noneType   = reflect.TypeOf(struct{}{})
)

// A mismatch is what an argument cannot become; it travels up as a panic that decodeArguments ends.
type mismatch string

// A reader walks over one encoding, which the supervisor made: it is whole and within the codec's bounds.
type reader struct {
	data []byte
	at   int
}

// decodeArguments reads (args, kwargs) as arguments of a function type; problem says why it cannot.
func decodeArguments(blob []byte, kind reflect.Type) (arguments []reflect.Value, problem string) {
	position := 0
	defer func() {
		if caught := recover(); caught != nil {
			problem = fmt.Sprint(caught)
			if position > 0 {
				problem = fmt.Sprintf("argument %d: %s", position, problem)
			}
		}
	}()
	r := &reader{data: blob, at: 3} // a tuple of two, and the tag of the list
	count := r.length()
	fixed := kind.NumIn()
	if kind.IsVariadic() {
		fixed--
	}
	if count < fixed || count > fixed && !kind.IsVariadic() {
		return nil, fmt.Sprintf("%d given, where the function is a %s", count, kind)
	}
	for i := 0; i < count; i++ {
		position = i + 1
		var wanted reflect.Type
		if i < fixed {
			wanted = kind.In(i)
		} else {
			wanted = kind.In(fixed).Elem()
		}
		argument := reflect.New(wanted).Elem()
		r.into(argument)
		arguments = append(arguments, argument)
	}
	position = 0
	r.at++
	if r.length() != 0 {
		return nil, "Go has no keyword arguments"
	}
	return arguments, ""
}

func (r *reader) refuse(tag byte, wanted reflect.Type) {
	panic(mismatch(fmt.Sprintf("%s is no %s", pythonNames[tag], wanted)))
}

func (r *reader) length() int {
	number, size := binary.Uvarint(r.data[r.at:])
	r.at += size
	return int(number)
}

func (r *reader) blob() []byte {
	size := r.length()
	r.at += size
	return r.data[r.at-size : r.at]
}

func (r *reader) double() float64 {
	r.at += 8
	return math.Float64frombits(binary.BigEndian.Uint64(r.data[r.at-8:]))
}

// integer reads the body of an int: as an int64 where it fits into one, else as a big.Int.
func (r *reader) integer() (int64, *big.Int) {
	body := r.blob()
	if len(body) <= 8 {
		var bits uint64
		for i := len(body) - 1; i >= 0; i-- {
			bits = bits<<8 | uint64(body[i])
		}
		unused := uint(64 - 8*len(body))
		return int64(bits<<unused) >> unused, nil
	}
	bytes := make([]byte, len(body))
	for i, one := range body {
		bytes[len(body)-1-i] = one
	}
	number := new(big.Int).SetBytes(bytes)
	if bytes[0] >= 128 {
		number.Sub(number, new(big.Int).Lsh(big.NewInt(1), uint(8*len(bytes))))
	}
	if number.IsInt64() {
		return number.Int64(), nil
	}
	return 0, number
}

// into reads one value into v, which is settable.
func (r *reader) into(v reflect.Value) {
	tag := r.data[r.at]
	r.at++
	kind := v.Type()
	switch v.Kind() {
	case reflect.Bool:
		if tag == 'T' || tag == 'F' {
			v.SetBool(tag == 'T')
			return
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if tag == 'i' {
			small, large := r.integer()
			if large != nil || v.OverflowInt(small) {
				panic(mismatch(fmt.Sprintf("an int beyond the range of %s", kind)))
			}
			v.SetInt(small)
			return
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if tag == 'i' {
			small, large := r.integer()
			number := uint64(small)
			fits := large == nil && small >= 0
			if large != nil && large.IsUint64() {
				number, fits = large.Uint64(), true
			}
			if !fits || v.OverflowUint(number) {
				panic(mismatch(fmt.Sprintf("an int beyond the range of %s", kind)))
			}
			v.SetUint(number)
			return
		}
	case reflect.Float32, reflect.Float64:
		if tag == 'd' || tag == 'i' {
			v.SetFloat(r.float(tag, kind))
			return
		}
	case reflect.Complex64, reflect.Complex128:
		if tag == 'c' || tag == 'd' || tag == 'i' {
			number := complex(0, 0)
			if tag == 'c' {
				real := r.double()
				number = complex(real, r.double())
			} else {
				number = complex(r.float(tag, kind), 0)
			}
			if v.OverflowComplex(number) {
				panic(mismatch(fmt.Sprintf("a number beyond the range of %s", kind)))
			}
			v.SetComplex(number)
			return
		}
	case reflect.String:
		if tag == 's' || tag == 'b' {
			v.SetString(string(r.blob()))
			return
		}
	case reflect.Slice:
		if r.slice(tag, v) {
			return
		}
	case reflect.Array:
		if r.array(tag, v) {
			return
		}
	case reflect.Map:
		if r.mapping(tag, v) {
			return
		}
	case reflect.Ptr:
		if tag == 'N' {
			return
		}
		r.at--
		target := reflect.New(kind.Elem())
		r.into(target.Elem())
		v.Set(target)
		return
	case reflect.Struct:
		if kind == bigIntType && tag == 'i' {
			small, large := r.integer()
			target := v.Addr().Interface().(*big.Int)
			if large == nil {
				target.SetInt64(small)
			} else {
				target.Set(large)
			}
			return
		}
	case reflect.Interface:
		if tag == 'N' {
			return
		}
		if kind.NumMethod() == 0 {
			v.Set(reflect.ValueOf(r.natural(tag)))
			return
		}
	}
	r.refuse(tag, kind)
}

func (r *reader) float(tag byte, kind reflect.Type) float64 {
	number := 0.0
	if tag == 'd' {
		number = r.double()
	} else if small, large := r.integer(); large == nil {
		number = float64(small)
	} else {
		number, _ = new(big.Float).SetInt(large).Float64()
		if math.IsInf(number, 0) {
			panic(mismatch(fmt.Sprintf("an int beyond the range of %s", kind)))
		}
	}
	narrow := kind.Kind() == reflect.Float32 || kind.Kind() == reflect.Complex64
	if narrow && math.IsInf(float64(float32(number)), 0) && !math.IsInf(number, 0) {
		panic(mismatch(fmt.Sprintf("a number beyond the range of %s", kind)))
	}
	return number
}

func isBytes(kind reflect.Type) bool { return kind.Elem().Kind() == reflect.Uint8 }

func (r *reader) slice(tag byte, v reflect.Value) bool {
	if isBytes(v.Type()) {
		if tag == 'b' || tag == 'a' {
			v.SetBytes(append([]byte{}, r.blob()...))
			return true
		}
		return false
	}
	if tag != 'l' && tag != 't' && tag != 'q' {
		return false
	}
	count := r.length()
	v.Set(reflect.MakeSlice(v.Type(), count, count))
	for i := 0; i < count; i++ {
		r.into(v.Index(i))
	}
	return true
}

func (r *reader) array(tag byte, v reflect.Value) bool {
	asBytes := isBytes(v.Type())
	if asBytes && tag != 'b' && tag != 'a' || !asBytes && tag != 'l' && tag != 't' && tag != 'q' {
		return false
	}
	count := r.length()
	if count != v.Len() {
		panic(mismatch(fmt.Sprintf("%s of %d is no %s", pythonNames[tag], count, v.Type())))
	}
	for i := 0; i < count; i++ {
		if asBytes {
			v.Index(i).SetUint(uint64(r.data[r.at]))
			r.at++
		} else {
			r.into(v.Index(i))
		}
	}
	return true
}

func isDict(tag byte) bool { return tag == 'm' || tag == 'o' || tag == 'k' || tag == 'f' }

func (r *reader) mapping(tag byte, v reflect.Value) bool {
	kind := v.Type()
	asSet := tag == 'S' || tag == 'Z'
	inSet := kind.Elem() == noneType
	if asSet && !inSet && kind.Elem().Kind() != reflect.Bool || !asSet && (inSet || !isDict(tag)) {
		return false
	}
	count := r.length()
	made := reflect.MakeMapWithSize(kind, count)
	for i := 0; i < count; i++ {
		key := reflect.New(kind.Key()).Elem()
		r.key(key)
		value := reflect.New(kind.Elem()).Elem()
		switch {
		case !asSet:
			r.into(value)
		case !inSet:
			value.SetBool(true)
		}
		made.SetMapIndex(key, value)
	}
	if made.Len() != count {
		panic(mismatch(fmt.Sprintf("keys of a %s that are one key of %s", pythonNames[tag], kind)))
	}
	v.Set(made)
	return true
}

// key reads a key: one that Go cannot compare by value would be found never again.
func (r *reader) key(v reflect.Value) {
	tag := r.data[r.at]
	r.into(v)
	if v.Kind() == reflect.Interface && !v.IsNil() {
		switch v.Elem().Kind() {
		case reflect.Bool, reflect.Int, reflect.Float64, reflect.Complex128, reflect.String:
		default:
			panic(mismatch(fmt.Sprintf("%s is no key in Go", pythonNames[tag])))
		}
	}
	if v.Kind() == reflect.Ptr {
		panic(mismatch(fmt.Sprintf("%s is no key by its value in Go", v.Type())))
	}
}

// natural reads a value whose type the program leaves open, and whose tag is not that of None.
func (r *reader) natural(tag byte) interface{} {
	switch tag {
	case 'T', 'F':
		return tag == 'T'
	case 'i':
		small, large := r.integer()
		if large != nil || int64(int(small)) != small {
			if large == nil {
				large = big.NewInt(small)
			}
			return large
		}
		return int(small)
	case 'd':
		return r.double()
	case 'c':
		real := r.double()
		return complex(real, r.double())
	case 's':
		return string(r.blob())
	case 'b', 'a':
		return append([]byte{}, r.blob()...)
	case 'l', 't', 'q':
		return r.made(tag, reflect.TypeOf([]interface{}{}))
	case 'S', 'Z':
		return r.made(tag, reflect.TypeOf(map[interface{}]struct{}{}))
	case 'm', 'o', 'k', 'f':
		if r.textKeys() {
			return r.made(tag, reflect.TypeOf(map[string]interface{}{}))
		}
		return r.made(tag, reflect.TypeOf(map[interface{}]interface{}{}))
	}
	r.refuse(tag, anyType)
	return nil
}

func (r *reader) made(tag byte, kind reflect.Type) interface{} {
	v := reflect.New(kind).Elem()
	if kind.Kind() == reflect.Slice {
		r.slice(tag, v)
	} else {
		r.mapping(tag, v)
	}
	return v.Interface()
}

// textKeys looks ahead: are all keys of the dict that begins here of type str?
func (r *reader) textKeys() bool {
	ahead := &reader{data: r.data, at: r.at}
	for count := ahead.length(); count > 0; count-- {
		if ahead.data[ahead.at] != 's' {
			return false
		}
		ahead.skip()
		ahead.skip()
	}
	return true
}

func (r *reader) skip() {
	tag := r.data[r.at]
	r.at++
	switch tag {
	case 'N', 'T', 'F':
	case 'd':
		r.at += 8
	case 'c':
		r.at += 16
	case 'l', 't', 'q', 'S', 'Z':
		for count := r.length(); count > 0; count-- {
			r.skip()
		}
	case 'm', 'o', 'k', 'f':
		for count := 2 * r.length(); count > 0; count-- {
			r.skip()
		}
	case 'r', 'e':
		for count := 3; count > 0; count-- {
			r.skip()
		}
	case 'Q':
		r.skip()
		r.skip()
	default: // the rest is a length and that many bytes
		r.blob()
	}
}
