/* What a driver of C or C++ may ask of calls.c: reading the arguments of a call, writing what it came to.

   The codec is that of sandbox/codec.py, byte for byte. Values are read and written in order, as the types
   of the solution say. No header of the C library is included here, so that a solution finds only the names
   that it asked for; all names of ours begin with sandbox_. */

#ifndef SANDBOX_CALLS_H
#define SANDBOX_CALLS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef __SIZE_TYPE__ sandbox_size;
typedef unsigned __int128 sandbox_wide;

/* An integer: its low 128 bits in two's complement, and whether it is negative. */
typedef struct {
    sandbox_wide bits;
    int negative;
} sandbox_int;

/* A place in the encoding of a call's arguments. */
typedef struct {
    const unsigned char *at, *end;
} sandbox_in;

/* An outcome in the making. `refused` says why the value has no encoding; nothing is written from then on.
   While `frozen` is not 0 a list is written as a tuple and a set as a frozenset, which can be hashed. */
typedef struct {
    unsigned char *data;
    sandbox_size size, room, nodes;
    int depth, frozen;
    const char *refused;
} sandbox_out;

/* Reading. `peek` gives the tag that is next, `kind` the name that Python has for such a value; the others
   read the value of that tag: an int (0 where it takes more than 129 bits), a float, the bytes of a str,
   bytes or bytearray, the number of items of a container, whose items follow. */
int sandbox_peek(const sandbox_in *in);
const char *sandbox_kind(const sandbox_in *in);
int sandbox_take_integer(sandbox_in *in, sandbox_int *value);
double sandbox_take_double(sandbox_in *in);
const unsigned char *sandbox_take_blob(sandbox_in *in, sandbox_size *size);
sandbox_size sandbox_take_count(sandbox_in *in);
/* The one code point of a str, or -1. */
long sandbox_take_character(sandbox_in *in);

/* Writing. Text that is no UTF-8 is written as bytes. `open` begins a container of one of the codec's tags
   and answers 0 where it is refused; then neither items nor `close` may follow. A set is opened by
   `open_set`, each item ended by `item`, and all of it by `close_set`, which sorts. */
void sandbox_put_none(sandbox_out *out);
void sandbox_put_bool(sandbox_out *out, int value);
void sandbox_put_integer(sandbox_out *out, sandbox_int value);
void sandbox_put_double(sandbox_out *out, double value);
void sandbox_put_complex(sandbox_out *out, double real, double imaginary);
void sandbox_put_text(sandbox_out *out, const char *text, sandbox_size size);
/* UTF-8 of a code point, at most 4 bytes; answers how many, 0 beyond U+10FFFF. */
sandbox_size sandbox_utf8(unsigned long code, char *text);
void sandbox_put_refusal(sandbox_out *out, const char *why);
int sandbox_open(sandbox_out *out, char tag, sandbox_size count);
void sandbox_close(sandbox_out *out);
typedef struct {
    sandbox_size start, count;
    sandbox_size *ends;
} sandbox_set;
int sandbox_open_set(sandbox_out *out, sandbox_set *set, sandbox_size count);
void sandbox_item(sandbox_out *out, sandbox_set *set);
void sandbox_close_set(sandbox_out *out, sandbox_set *set);

/* Outcomes: `value` begins one, `error` and `unencodable` replace whatever was begun. */
void sandbox_value(sandbox_out *out);
void sandbox_error(sandbox_out *out, const char *type, const char *message, const char *cause);
void sandbox_unencodable(sandbox_out *out, const char *type);

/* An argument that does not fit: remember what was due and what is there. Answers 0. `argument_error` makes
   the outcome of it; `position` counts from 1. */
int sandbox_mismatch(const char *due, const sandbox_in *in);
int sandbox_mismatch_text(const char *due, const char *given);
void sandbox_argument_error(sandbox_out *out, int position);
void sandbox_arity_error(sandbox_out *out, const char *due, sandbox_size given);

/* Begins a call: puts `in` at its first argument and answers the number of arguments. */
sandbox_size sandbox_begin(sandbox_in *in);
/* After the last argument: 0, and an outcome, where there are keyword arguments. */
int sandbox_no_keywords(sandbox_in *in, sandbox_out *out);

/* Bytes, without the library's functions. `length` is that of a string, or `most`. */
void sandbox_copy(void *to, const void *from, sandbox_size size);
sandbox_size sandbox_length(const char *text, sandbox_size most);

/* Memory of a program that has none left is a limit, so this does not return without. */
void *sandbox_memory(sandbox_size size);
void sandbox_failure(const char *category, const char *type, const char *message, const char *cause);

/* Of the driver: why there is nothing to call (a null pointer where there is), one call, and the end. */
const char *sandbox_missing(void);
void sandbox_call(sandbox_in *in, sandbox_out *out);
void sandbox_flush(void);

#ifdef __cplusplus
}
#endif

#endif
