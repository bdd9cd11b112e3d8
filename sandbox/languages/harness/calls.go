// Package calls answers a job of kind "calls" for a Go function; sandbox/languages/base.py has the contract.
//
// A Python value becomes an argument by the type of the parameter, or the call is an ArgumentError:
//
//	int, uint, ... of any size   int within the type's range
//	big.Int, *big.Int            int
//	float32, float64             float, int (rounded to the type; an overflow is an error)
//	complex64, complex128        complex, float, int
//	bool                         bool
//	string                       str, bytes (a lone surrogate becomes its three bytes)
//	[]byte, [N]byte              bytes, bytearray
//	other slices and arrays      list, tuple, deque (of exactly N items for an array)
//	map[K]V                      dict and its kin
//	map[K]struct{}               set, frozenset
//	map[K]bool                   set, frozenset (all true), or a dict of bool
//	*T                           None for nil, else what T takes
//	interface{}                  None nil, bool bool, int int or else *big.Int, float float64, complex complex128,
//	                             str string, bytes []byte, list and tuple []interface{}, dict
//	                             map[string]interface{} or else map[interface{}]interface{},
//	                             set map[interface{}]struct{}
//	another interface            None only
//	struct, func, chan           nothing
//
// The parameters of a variadic function take the rest of the arguments, one each.
//
// A result becomes a Python value by its dynamic type:
//
//	all kinds of int, big.Int    int
//	floats, complex, bool        float (float32 exactly as float64), complex, bool
//	string                       str, or bytes where it is not UTF-8 (surrogates let through)
//	[]byte, [N]byte              bytes
//	other slices and arrays      list (a nil slice is an empty list; a tuple within a key)
//	map[K]struct{}               set
//	other maps                   dict (nil is an empty one), ordered by the bytes of the keys
//	nil pointer or interface     None
//	*T                           what T becomes
//	struct, func, chan           no encoding
//
// No result is None, several are a tuple. A last result of type error is taken off: non-nil, it is the call's
// error, under the name of its dynamic type without "*". So is a panic: with an error as its value it has that
// error's name, with any other value the name "panic". A generic function has no value to call, so it counts
// as missing. A fatal error of the runtime (stack overflow, deadlock, a panic in another goroutine or in init)
// ends the program, as it would anywhere.
package calls

import (
	"encoding/binary"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

const (
	callsPath      = "/tmp/calls.bin"
	results        = 3
	maxMessage     = 1000
	exitLost       = 71
	firstFree      = 10
	headBytes      = 13
	outcomeValue   = 'v'
	outcomeError   = 'e'
	outcomeUnknown = 'u'
)

var (
	channel  int
	nonce    []byte
	blobs    [][]byte
	maxBytes = 16 << 20

	// Set by the linker where the function cannot be used: what the compiler said of it.
	why string
)

// The package of the solution imports this one, so this runs before any code of it.
func init() {
	fd, _, failed := syscall.Syscall(syscall.SYS_FCNTL, results, syscall.F_DUPFD_CLOEXEC, firstFree)
	if failed != 0 {
		os.Exit(exitLost)
	}
	channel = int(fd)
	syscall.Close(results)
	data, err := os.ReadFile(callsPath)
	if err != nil || len(data) < 12 {
		os.Exit(exitLost)
	}
	os.Remove(callsPath)
	nonce = data[:8]
	count := int(binary.LittleEndian.Uint32(data[8:]))
	data = data[12:]
	for ; count > 0; count-- {
		size := int(binary.LittleEndian.Uint32(data))
		blobs = append(blobs, data[4:4+size])
		data = data[4+size:]
	}
	if len(os.Args) == 3 {
		if number, err := strconv.Atoi(os.Args[1]); err == nil {
			maxBytes = number
		}
		if number, err := strconv.Atoi(os.Args[2]); err == nil {
			debug.SetMaxStack(number)
		}
	}
	os.Args = os.Args[:1]
}

// Run calls entry once for each call of the job and ends the process.
func Run(name string, entry interface{}) {
	function := reflect.ValueOf(entry)
	if function.Kind() != reflect.Func || function.IsNil() {
		why = "it is no function"
		Missing(name)
	}
	send('R', nil)
	for _, blob := range blobs {
		send('O', outcome(function, blob))
	}
	send('D', []byte{'i', 1, 0})
	os.Exit(0)
}

// Missing says that the solution has no function of this name, and ends the process.
func Missing(name string) {
	message := "solution.go has no function '" + name + "' that can be called"
	if why != "" {
		message += ": " + why
	}
	send('X', described("missing", "AttributeError", message, ""))
	os.Exit(1)
}

func send(kind byte, payload []byte) {
	frame := make([]byte, headBytes, headBytes+len(payload))
	copy(frame, nonce)
	frame[8] = kind
	binary.LittleEndian.PutUint32(frame[9:], uint32(len(payload)))
	frame = append(frame, payload...)
	for len(frame) > 0 {
		size, err := syscall.Write(channel, frame)
		if err == syscall.EINTR || err == syscall.EAGAIN {
			continue
		}
		if err != nil {
			os.Exit(exitLost)
		}
		frame = frame[size:]
	}
}

// outcome has the call made in a goroutine of its own, which it may end with runtime.Goexit.
func outcome(function reflect.Value, blob []byte) []byte {
	made := make(chan []byte, 1)
	go func() {
		var answer []byte
		finished := false
		defer func() {
			if !finished {
				answer = panicked(recover())
			}
			made <- answer
		}()
		answer = call(function, blob)
		finished = true
	}()
	return <-made
}

func call(function reflect.Value, blob []byte) []byte {
	kind := function.Type()
	arguments, problem := decodeArguments(blob, kind)
	if problem != "" {
		return append([]byte{outcomeError}, described("ArgumentError", problem, "")...)
	}
	values := function.Call(arguments)
	if last := len(values) - 1; last >= 0 && kind.Out(last) == errorType {
		if err, ok := values[last].Interface().(error); ok {
			return failed(err)
		}
		values = values[:last]
	}
	encoded, problem := encodeResults(values)
	if problem != "" {
		return append([]byte{outcomeUnknown}, described(resultNames(values), problem, "")...)
	}
	return append([]byte{outcomeValue}, encoded...)
}

var errorType = reflect.TypeOf((*error)(nil)).Elem()

func resultNames(values []reflect.Value) string {
	names := make([]string, len(values))
	for i, value := range values {
		names[i] = value.Type().String()
	}
	return strings.Join(names, ", ")
}

func panicked(value interface{}) []byte {
	switch value := value.(type) {
	case nil:
		return append([]byte{outcomeError}, described("runtime.Goexit", "runtime.Goexit or panic(nil)", "")...)
	case error:
		return failed(value)
	default:
		return append([]byte{outcomeError}, described("panic", textOf(func() string { return fmt.Sprint(value) }), "")...)
	}
}

func failed(err error) []byte {
	name := strings.TrimLeft(reflect.TypeOf(err).String(), "*")
	return append([]byte{outcomeError}, described(name, textOf(err.Error), "")...)
}

// textOf asks code of the solution for a text; that may panic as well.
func textOf(ask func() string) (text string) {
	defer func() {
		if recover() != nil {
			text = "<unprintable>"
		}
	}()
	return ask()
}

// described encodes a list of texts, each cut to a bounded number of characters.
func described(texts ...string) []byte {
	out := []byte{'l', byte(len(texts))}
	for _, text := range texts {
		if len(text) > 4*maxMessage {
			text = text[:4*maxMessage]
		}
		text = strings.ToValidUTF8(text, "\ufffd")
		if runes := []rune(text); len(runes) > maxMessage {
			text = string(runes[:maxMessage])
		}
		out = append(appendLength(append(out, 's'), len(text)), text...)
	}
	return out
}
