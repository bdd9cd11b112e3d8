/* Runs the calls of a solution in C or C++: reads them, hands each to the driver, writes frames.

   This is valid C and C++. It is compiled as a unit of its own, so that what it includes stays away from
   the solution. The contract is that of sandbox/languages/base.py, the codec that of sandbox/codec.py.

   A solution may have a variable `read`, or a `strlen` of its own, which would take the place of the
   library's here as well. So the system is called by number, and bytes are copied by loops; the compiler is
   told not to turn those into calls (`clike.py`). */

#include "calls.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SANDBOX_CALLS
#define SANDBOX_CALLS "/tmp/calls.bin"
#endif

enum { NONCE = 8, HEAD = 13, RESULTS = 3, LEAST_DESCRIPTOR = 10, CHANNEL_LOST = 71, BROKEN = 70 };
enum { MAX_DEPTH = 100, MAX_NODES = 1000000, MAX_BYTES = 64 << 20, MAX_TEXT = 1000, MAX_NAME = 100 };

static unsigned char nonce[NONCE];
static unsigned char *calls;
static long channel = -1, owner;
static char due_text[MAX_TEXT + 1];

void sandbox_copy(void *to, const void *from, sandbox_size size) {
    for (sandbox_size i = 0; i < size; i++) ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
}

sandbox_size sandbox_length(const char *text, sandbox_size most) {
    sandbox_size size = 0;
    while (size < most && text[size]) size++;
    return size;
}

static void leave(int status) {
    for (;;) syscall(SYS_exit_group, (long)status);
}

static void give_up(const char *what) {
    syscall(SYS_write, 2L, "sandbox: ", 9L);
    syscall(SYS_write, 2L, what, sandbox_length(what, MAX_TEXT));
    syscall(SYS_write, 2L, "\n", 1L);
    leave(BROKEN);
}

/* Before the constructors of the solution, which have a later priority or none. */
__attribute__((constructor(101))) static void read_calls(void) {
    sandbox_size size = 0, room = 1 << 16;
    long got, file = syscall(SYS_openat, (long)AT_FDCWD, SANDBOX_CALLS, (long)(O_RDONLY | O_CLOEXEC), 0L);
    if (file < 0) give_up("no calls to read");
    calls = (unsigned char *)malloc(room);
    while (calls && (got = syscall(SYS_read, file, calls + size, room - size)) > 0) {
        size += (sandbox_size)got;
        if (size == room) calls = (unsigned char *)realloc(calls, room *= 2);
    }
    if (calls == NULL) give_up("no memory for the calls");
    syscall(SYS_close, file);
    syscall(SYS_unlinkat, (long)AT_FDCWD, SANDBOX_CALLS, 0L);
    if (size < NONCE + 4) give_up("the calls are cut off");
    sandbox_copy(nonce, calls, NONCE);
    /* Not under its usual number, and not for programs that the solution starts. */
    channel = syscall(SYS_fcntl, (long)RESULTS, (long)F_DUPFD_CLOEXEC, (long)LEAST_DESCRIPTOR);
    if (channel < 0) give_up("no result channel");
    syscall(SYS_close, (long)RESULTS);
    owner = syscall(SYS_getpid);
}

/* -- frames */

static void send_frame(char kind, unsigned char *frame, sandbox_size size) {
    sandbox_size at = 0, payload = size - HEAD;
    /* A fork of the solution that comes back here is not the one that was asked. */
    if (syscall(SYS_getpid) != owner) leave(0);
    sandbox_copy(frame, nonce, NONCE);
    frame[NONCE] = (unsigned char)kind;
    for (int i = 0; i < 4; i++) frame[NONCE + 1 + i] = (unsigned char)(payload >> (8 * i));
    while (at < size) {
        long sent = syscall(SYS_write, channel, frame + at, size - at);
        if (sent <= 0) leave(CHANNEL_LOST);
        at += (sandbox_size)sent;
    }
}

static void no_memory(void) {
    unsigned char spare[512];
    sandbox_out out = {spare, HEAD, sizeof spare, 0, 0, 0, NULL};
    sandbox_open(&out, 'l', 4);
    sandbox_put_text(&out, "load", 4);
    sandbox_put_text(&out, "MemoryError", 11);
    sandbox_put_text(&out, "refused", 7);
    sandbox_put_text(&out, "memory", 6);
    send_frame('X', spare, out.size);
    leave(1);
}

void *sandbox_memory(sandbox_size size) {
    void *memory = malloc(size ? size : 1);
    if (memory == NULL) no_memory();
    return memory;
}

/* -- writing */

static int room(sandbox_out *out, sandbox_size more) {
    if (out->refused) return 0;
    if (more > MAX_BYTES || out->size + more > MAX_BYTES) {
        out->refused = "larger than 67108864 bytes";
        return 0;
    }
    if (out->size + more > out->room) {
        sandbox_size larger = 2 * out->room > out->size + more ? 2 * out->room : out->size + more;
        unsigned char *data = (unsigned char *)realloc(out->data, larger);
        if (data == NULL) no_memory();
        out->data = data;
        out->room = larger;
    }
    return 1;
}

static void put_bytes(sandbox_out *out, const void *data, sandbox_size size) {
    if (size && room(out, size)) {
        sandbox_copy(out->data + out->size, data, size);
        out->size += size;
    }
}

static void put_head(sandbox_out *out, char tag, sandbox_size count) {
    unsigned char head[12];
    int at = 0;
    head[at++] = (unsigned char)tag;
    for (; count > 127; count >>= 7) head[at++] = (unsigned char)(count | 128);
    head[at++] = (unsigned char)count;
    put_bytes(out, head, (sandbox_size)at);
}

static int one_more(sandbox_out *out, sandbox_size weight) {
    out->nodes += weight;
    if (out->nodes > MAX_NODES && !out->refused) out->refused = "more than 1000000 values";
    return out->refused == NULL;
}

static void put_tag(sandbox_out *out, char tag) {
    if (one_more(out, 1)) put_bytes(out, &tag, 1);
}

void sandbox_put_none(sandbox_out *out) { put_tag(out, 'N'); }

void sandbox_put_bool(sandbox_out *out, int value) { put_tag(out, value ? 'T' : 'F'); }

void sandbox_put_integer(sandbox_out *out, sandbox_int value) {
    sandbox_wide magnitude = value.negative ? -value.bits : value.bits;
    unsigned char body[17];
    int length = 0, size;
    if (!one_more(out, 1)) return;
    /* -2**128 has a magnitude of 129 bits, of which 128 are here; no type is that wide. */
    for (; magnitude; magnitude >>= 1) length++;
    size = length / 8 + 1;
    for (int i = 0; i < 16; i++) body[i] = (unsigned char)(value.bits >> (8 * i));
    body[16] = value.negative ? 255 : 0;
    put_head(out, 'i', (sandbox_size)size);
    put_bytes(out, body, (sandbox_size)size);
}

static void put_raw_double(sandbox_out *out, double value) {
    unsigned long long bits = 0x7ff8000000000000ULL;
    unsigned char body[8];
    if (value == value) sandbox_copy(&bits, &value, 8);
    for (int i = 0; i < 8; i++) body[i] = (unsigned char)(bits >> (56 - 8 * i));
    put_bytes(out, body, 8);
}

void sandbox_put_double(sandbox_out *out, double value) {
    put_tag(out, 'd');
    put_raw_double(out, value);
}

void sandbox_put_complex(sandbox_out *out, double real, double imaginary) {
    put_tag(out, 'c');
    put_raw_double(out, real);
    put_raw_double(out, imaginary);
}

/* The length of the valid UTF-8 at the front; a surrogate alone is let through, as the codec does. */
static sandbox_size valid_text(const unsigned char *text, sandbox_size size) {
    sandbox_size at = 0;
    while (at < size) {
        unsigned char first = text[at];
        sandbox_size more = first < 0x80 ? 0 : first < 0xc2 ? 9 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : 9;
        if (more == 9 || more >= size - at) break;
        for (sandbox_size i = 1; i <= more; i++)
            if ((text[at + i] & 0xc0) != 0x80) return at;
        if ((first == 0xe0 && text[at + 1] < 0xa0) || (first == 0xf0 && text[at + 1] < 0x90) ||
            (first == 0xf4 && text[at + 1] > 0x8f))
            break;
        at += more + 1;
    }
    return at;
}

void sandbox_put_text(sandbox_out *out, const char *text, sandbox_size size) {
    if (!one_more(out, 1) || !room(out, 0)) return;
    put_head(out, valid_text((const unsigned char *)text, size) == size ? 's' : 'b', size);
    put_bytes(out, text, size);
}

sandbox_size sandbox_utf8(unsigned long code, char *text) {
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    sandbox_size size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : code < 0x110000 ? 4 : 0;
    for (sandbox_size i = size; i > 1; code >>= 6) text[--i] = (char)(0x80 | (code & 63));
    if (size) text[0] = (char)(first[size] | code);
    return size;
}

void sandbox_put_refusal(sandbox_out *out, const char *why) {
    if (!out->refused) out->refused = why;
}

static int deeper(sandbox_out *out, sandbox_size count, sandbox_size each) {
    if (out->depth >= MAX_DEPTH) sandbox_put_refusal(out, "nested deeper than 100");
    /* Told before the first item: writing millions of them would take long. */
    if (count > MAX_NODES || out->nodes + count * each > MAX_NODES)
        sandbox_put_refusal(out, "more than 1000000 values");
    out->depth++;
    return out->refused == NULL;
}

int sandbox_open(sandbox_out *out, char tag, sandbox_size count) {
    if (!one_more(out, tag == 'm' ? 5 : 1) || !deeper(out, count, tag == 'm' ? 2 : 1)) return 0;
    if (tag == 'm' && out->frozen) {
        sandbox_put_refusal(out, "a dict inside a set or as a key of a dict");
        return 0;
    }
    put_head(out, tag == 'l' && out->frozen ? 't' : tag, count);
    return 1;
}

void sandbox_close(sandbox_out *out) { out->depth--; }

int sandbox_open_set(sandbox_out *out, sandbox_set *set, sandbox_size count) {
    if (!one_more(out, 5) || !deeper(out, count, 1)) return 0;
    put_head(out, out->frozen ? 'Z' : 'S', count);
    set->start = out->size;
    set->count = 0;
    set->ends = (sandbox_size *)sandbox_memory(count * sizeof(sandbox_size));
    out->frozen++;
    return 1;
}

void sandbox_item(sandbox_out *out, sandbox_set *set) { set->ends[set->count++] = out->size; }

typedef struct {
    const unsigned char *data;
    sandbox_size size;
} part;

static int compare_parts(const void *left, const void *right) {
    const part *a = (const part *)left, *b = (const part *)right;
    for (sandbox_size i = 0; i < a->size && i < b->size; i++)
        if (a->data[i] != b->data[i]) return a->data[i] < b->data[i] ? -1 : 1;
    return (a->size > b->size) - (a->size < b->size);
}

void sandbox_close_set(sandbox_out *out, sandbox_set *set) {
    sandbox_size whole = out->size - set->start, from = set->start;
    if (!out->refused && set->count > 1) {
        unsigned char *copy = (unsigned char *)sandbox_memory(whole);
        part *parts = (part *)sandbox_memory(set->count * sizeof(part));
        sandbox_copy(copy, out->data + set->start, whole);
        for (sandbox_size i = 0; i < set->count; from = set->ends[i++]) {
            parts[i].data = copy + (from - set->start);
            parts[i].size = set->ends[i] - from;
        }
        qsort(parts, set->count, sizeof(part), compare_parts);
        out->size = set->start;
        for (sandbox_size i = 0; i < set->count; i++) put_bytes(out, parts[i].data, parts[i].size);
        free(parts);
        free(copy);
    }
    free(set->ends);
    out->frozen--;
    sandbox_close(out);
}

/* -- outcomes */

static void restart(sandbox_out *out) {
    out->size = HEAD;
    out->nodes = 0;
    out->depth = out->frozen = 0;
    out->refused = NULL;
}

/* Text for people: cut, and with no bytes but UTF-8. */
static void put_message(sandbox_out *out, const char *text, sandbox_size most) {
    char clean[MAX_TEXT + 1] = "";
    sandbox_size size = sandbox_length(text, most), at = 0;
    sandbox_copy(clean, text, size);
    while ((at += valid_text((const unsigned char *)clean + at, size - at)) < size) {
        /* Cut within a character. */
        if (size == most && size - at < 4) {
            size = at;
            break;
        }
        clean[at++] = '?';
    }
    sandbox_put_text(out, clean, size);
}

void sandbox_value(sandbox_out *out) {
    restart(out);
    put_bytes(out, "v", 1);
}

static void put_described(sandbox_out *out, const char *kind, const char *type, const char *message, const char *cause) {
    restart(out);
    put_bytes(out, kind, 1);
    sandbox_open(out, 'l', 3);
    put_message(out, type, MAX_NAME);
    put_message(out, message, MAX_TEXT);
    put_message(out, cause, MAX_NAME);
}

void sandbox_error(sandbox_out *out, const char *type, const char *message, const char *cause) {
    put_described(out, "e", type, message, cause);
}

void sandbox_unencodable(sandbox_out *out, const char *type) { put_described(out, "u", type, out->refused, ""); }

int sandbox_mismatch_text(const char *due, const char *given) {
    snprintf(due_text, sizeof due_text, "%s was due, not %s", due, given);
    return 0;
}

int sandbox_mismatch(const char *due, const sandbox_in *in) { return sandbox_mismatch_text(due, sandbox_kind(in)); }

void sandbox_argument_error(sandbox_out *out, int position) {
    char message[MAX_TEXT + 1];
    snprintf(message, sizeof message, "argument %d: %.900s", position, due_text);
    sandbox_error(out, "ArgumentError", message, "");
}

void sandbox_arity_error(sandbox_out *out, const char *due, sandbox_size given) {
    char message[MAX_TEXT + 1];
    snprintf(message, sizeof message, "%.900s, %lu given", due, (unsigned long)given);
    sandbox_error(out, "ArgumentError", message, "");
}

void sandbox_failure(const char *category, const char *type, const char *message, const char *cause) {
    sandbox_out out = {(unsigned char *)sandbox_memory(512), HEAD, 512, 0, 0, 0, NULL};
    sandbox_open(&out, 'l', 4);
    put_message(&out, category, MAX_NAME);
    put_message(&out, type, MAX_NAME);
    put_message(&out, message, MAX_TEXT);
    put_message(&out, cause, MAX_NAME);
    send_frame('X', out.data, out.size);
    leave(1);
}

/* -- reading: the supervisor's encoder made these bytes, so no length is past the end */

int sandbox_peek(const sandbox_in *in) { return in->at < in->end ? *in->at : 0; }

const char *sandbox_kind(const sandbox_in *in) {
    switch (sandbox_peek(in)) {
    case 'N': return "None";
    case 'T':
    case 'F': return "bool";
    case 'i': return "int";
    case 'd': return "float";
    case 'c': return "complex";
    case 's': return "str";
    case 'b': return "bytes";
    case 'a': return "bytearray";
    case 'l': return "list";
    case 't': return "tuple";
    case 'm':
    case 'o':
    case 'k':
    case 'f': return "dict";
    case 'S': return "set";
    case 'Z': return "frozenset";
    case 'q': return "deque";
    case 'r': return "range";
    case 'D': return "Decimal";
    case 'Q': return "Fraction";
    default: return "a value of another type";
    }
}

sandbox_size sandbox_take_count(sandbox_in *in) {
    sandbox_size count = 0;
    int shift = 0;
    in->at++;
    for (; in->at < in->end; shift += 7) {
        unsigned char byte = *in->at++;
        count |= (sandbox_size)(byte & 127) << shift;
        if (byte < 128) break;
    }
    return count;
}

const unsigned char *sandbox_take_blob(sandbox_in *in, sandbox_size *size) {
    const unsigned char *data;
    *size = sandbox_take_count(in);
    data = in->at;
    in->at += *size;
    return data;
}

int sandbox_take_integer(sandbox_in *in, sandbox_int *value) {
    sandbox_size size;
    const unsigned char *body = sandbox_take_blob(in, &size);
    value->negative = size > 0 && body[size - 1] > 127;
    value->bits = value->negative ? ~(sandbox_wide)0 : 0;
    if (size > 17 || (size == 17 && body[16] != (value->negative ? 255 : 0))) return 0;
    for (sandbox_size i = 0; i < size && i < 16; i++) {
        value->bits &= ~((sandbox_wide)255 << (8 * i));
        value->bits |= (sandbox_wide)body[i] << (8 * i);
    }
    return 1;
}

double sandbox_take_double(sandbox_in *in) {
    unsigned long long bits = 0;
    double value;
    for (int i = 0; i < 8; i++) bits = bits << 8 | in->at[1 + i];
    in->at += 9;
    sandbox_copy(&value, &bits, 8);
    return value;
}

long sandbox_take_character(sandbox_in *in) {
    sandbox_size size;
    const unsigned char *text = sandbox_take_blob(in, &size);
    if (size == 1) return text[0];
    if (size == 2 && text[0] >= 0xc0) return (text[0] & 31L) << 6 | (text[1] & 63);
    if (size == 3 && text[0] >= 0xe0) return (text[0] & 15L) << 12 | (text[1] & 63L) << 6 | (text[2] & 63);
    if (size == 4 && text[0] >= 0xf0)
        return (text[0] & 7L) << 18 | (text[1] & 63L) << 12 | (text[2] & 63L) << 6 | (text[3] & 63);
    return -1;
}

/* -- calls */

sandbox_size sandbox_begin(sandbox_in *in) {
    sandbox_take_count(in); /* the pair of arguments and keyword arguments */
    return sandbox_take_count(in);
}

int sandbox_no_keywords(sandbox_in *in, sandbox_out *out) {
    if (sandbox_take_count(in) == 0) return 1;
    sandbox_error(out, "ArgumentError", "the language has no keyword arguments", "");
    return 0;
}

static sandbox_size number(const unsigned char *at) {
    return at[0] | (sandbox_size)at[1] << 8 | (sandbox_size)at[2] << 16 | (sandbox_size)at[3] << 24;
}

int main(void) {
    const unsigned char *at = calls + NONCE;
    sandbox_size left = number(at);
    sandbox_out out = {(unsigned char *)sandbox_memory(4096), HEAD, 4096, 0, 0, 0, NULL};
    const char *missing = sandbox_missing();
    if (missing) sandbox_failure("missing", "NameError", missing, "");
    send_frame('R', out.data, HEAD);
    for (at += 4; left; left--) {
        sandbox_in in = {at + 4, at + 4 + number(at)};
        at = in.end;
        sandbox_call(&in, &out);
        send_frame('O', out.data, out.size);
    }
    restart(&out);
    sandbox_put_integer(&out, (sandbox_int){0, 0});
    send_frame('D', out.data, out.size);
    sandbox_flush();
    fflush(NULL);
    leave(0);
}
