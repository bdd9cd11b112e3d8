/* Arguments and results of C functions, by types that are known when the program runs; see calls_c.h. */

#include "calls_c.h"

#include <stdio.h>

static int kind_of(int code) { return code & 255; }
static sandbox_size size_of(int code) { return (sandbox_size)(code >> 8 & 255); }
static int pointers_of(int code) { return code >> 16 & 15; }
static int is_fixed(int code) { return code >> 20 & 1; }
static int pointed_to(int code) { return code - (1 << 16); }
static int is_integer(int code) { return pointers_of(code) == 0 && (kind_of(code) == 'i' || kind_of(code) == 'u'); }
/* A list on the side of Python: any pointer but a string. */
static int is_array(int code) { return pointers_of(code) == 2 || (pointers_of(code) == 1 && kind_of(code) != 'c'); }
static sandbox_size place_of(int code) { return pointers_of(code) ? sizeof(void *) : size_of(code); }

/* The type as C has it; of several names for one size the first. */
static const char *describe(int code) {
    static const struct {
        int kind;
        sandbox_size size;
        const char *name;
    } names[] = {
        {'b', sizeof(_Bool), "bool"},
        {'c', sizeof(char), "char"},
        {'i', sizeof(signed char), "signed char"},
        {'i', sizeof(short), "short"},
        {'i', sizeof(int), "int"},
        {'i', sizeof(long long), "long long"},
        {'i', sizeof(__int128), "__int128"},
        {'u', sizeof(unsigned char), "unsigned char"},
        {'u', sizeof(unsigned short), "unsigned short"},
        {'u', sizeof(unsigned), "unsigned"},
        {'u', sizeof(unsigned long long), "unsigned long long"},
        {'u', sizeof(unsigned __int128), "unsigned __int128"},
        {'f', sizeof(float), "float"},
        {'f', sizeof(double), "double"},
        {'f', sizeof(long double), "long double"},
        {'x', sizeof(float _Complex), "float complex"},
        {'x', sizeof(double _Complex), "double complex"},
        {'x', sizeof(long double _Complex), "long double complex"},
    };
    static char text[64];
    const char *name = "structure or other type";
    for (sandbox_size i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].kind == kind_of(code) && names[i].size == size_of(code)) name = names[i].name;
    snprintf(text, sizeof text, "%s%.*s", name, pointers_of(code) + (pointers_of(code) > 0), " **");
    return text;
}

static void clear(void *memory, sandbox_size size) {
    for (sandbox_size i = 0; i < size; i++) ((unsigned char *)memory)[i] = 0;
}

static int mismatch(int code, const sandbox_in *in) { return sandbox_mismatch(describe(code), in); }

/* -- reading */

static int take_none(sandbox_in *in) {
    if (sandbox_peek(in) != 'N') return 0;
    in->at++;
    return 1;
}

static int take_integer(sandbox_in *in, int code, void *place) {
    sandbox_int given;
    int bits = 8 * (int)size_of(code);
    if (sandbox_peek(in) != 'i') return mismatch(code, in);
    int fits = sandbox_take_integer(in, &given);
    if (kind_of(code) == 'i')
        fits = fits && (given.negative ? ~given.bits : given.bits) >> (bits - 1) == 0;
    else
        fits = fits && !given.negative && (bits == 128 || given.bits >> bits == 0);
    sandbox_copy(place, &given.bits, size_of(code));
    return fits || sandbox_mismatch_text(describe(code), "an int out of its range");
}

static void store_floating(long double value, sandbox_size size, char *place) {
    if (size == sizeof(float)) {
        float narrow = (float)value;
        sandbox_copy(place, &narrow, sizeof narrow);
    } else if (size == sizeof(double)) {
        double usual = (double)value;
        sandbox_copy(place, &usual, sizeof usual);
    } else {
        sandbox_copy(place, &value, sizeof value);
    }
}

static int take_floating(sandbox_in *in, int code, char *place, sandbox_size size) {
    sandbox_int given;
    if (sandbox_peek(in) == 'd') {
        store_floating(sandbox_take_double(in), size, place);
        return 1;
    }
    if (sandbox_peek(in) != 'i') return mismatch(code, in);
    if (!sandbox_take_integer(in, &given)) return sandbox_mismatch_text(describe(code), "an int of more than 128 bits");
    store_floating(given.negative ? -(long double)-given.bits : (long double)given.bits, size, place);
    return 1;
}

static int take_scalar(sandbox_in *in, int code, void *place) {
    int tag = sandbox_peek(in);
    long character;
    switch (kind_of(code)) {
    case 'b':
        if (tag != 'T' && tag != 'F') return mismatch(code, in);
        in->at++;
        *(_Bool *)place = tag == 'T';
        return 1;
    case 'c':
        if (tag != 's') return mismatch(code, in);
        character = sandbox_take_character(in);
        *(char *)place = (char)character;
        return (character >= 0 && character < 128) || sandbox_mismatch_text("char", "a str of anything but one ASCII character");
    case 'f':
        return take_floating(in, code, (char *)place, size_of(code));
    case 'x': {
        sandbox_size half = size_of(code) / 2;
        store_floating(0, half, (char *)place + half);
        if (tag != 'c') return take_floating(in, code, (char *)place, half);
        store_floating(sandbox_take_double(in), half, (char *)place);
        in->at--; /* the second number has no tag of its own */
        store_floating(sandbox_take_double(in), half, (char *)place + half);
        return 1;
    }
    default:
        return take_integer(in, code, place);
    }
}

static int take_text(sandbox_in *in, int code, char **place) {
    int tag = sandbox_peek(in);
    sandbox_size size;
    *place = NULL;
    if (take_none(in)) return 1;
    if (tag != 's' && tag != 'b' && tag != 'a') return mismatch(code, in);
    const unsigned char *text = sandbox_take_blob(in, &size);
    *place = (char *)sandbox_memory(size + 1);
    sandbox_copy(*place, text, size);
    (*place)[size] = 0;
    return sandbox_length(*place, size) == size || sandbox_mismatch_text(describe(code), "a str with a NUL in it");
}

static int take(sandbox_in *in, int code, void *place, sandbox_size *length, sandbox_size **inner) {
    int tag = sandbox_peek(in), item = pointed_to(code);
    sandbox_size step, count, ignored;
    char *items;
    if (pointers_of(code) == 0) return take_scalar(in, code, place);
    if (!is_array(code)) return take_text(in, code, (char **)place);
    *(void **)place = NULL;
    if (take_none(in)) return 1;
    if (tag != 'l' && tag != 't' && tag != 'q') return mismatch(code, in);
    step = place_of(item);
    *length = count = sandbox_take_count(in);
    items = (char *)sandbox_memory(count * step);
    clear(items, count * step);
    *(void **)place = items;
    if (pointers_of(code) == 2) {
        *inner = (sandbox_size *)sandbox_memory(count * sizeof **inner);
        clear(*inner, count * sizeof **inner);
    }
    for (sandbox_size i = 0; i < count; i++)
        if (!take(in, item, items + i * step, pointers_of(code) == 2 ? *inner + i : &ignored, NULL)) return 0;
    return 1;
}

/* Whether the last parameter is where a returned list's length goes. */
static int has_length(const sandbox_parameter *parameters, int count, int gives) {
    int last = count ? parameters[count - 1].code : 0;
    return gives > 0 && is_array(gives) && pointers_of(last) == 1 && !is_fixed(last) && is_integer(pointed_to(last));
}

static int is_length(const sandbox_parameter *parameters, int index) {
    return index > 0 && is_array(parameters[index - 1].code) && is_integer(parameters[index].code);
}

int sandbox_c_take(sandbox_in *in, sandbox_out *out, const sandbox_parameter *parameters, int count, int gives,
                   sandbox_slot *slots) {
    sandbox_size given = sandbox_begin(in);
    int due = count - has_length(parameters, count, gives), lengths = 0, position = 0;
    char text[64];
    for (int i = 0; i < due; i++) lengths += is_length(parameters, i);
    int fill = lengths && given == (sandbox_size)(due - lengths);
    if (given != (sandbox_size)due && !fill) {
        snprintf(text, sizeof text, "%d arguments were due", due);
        sandbox_arity_error(out, text, given);
        return 0;
    }
    for (int i = 0; i < count; i++) {
        /* Memory that has no declared type, so that a value of any type may be in it. */
        slots[i].memory = sandbox_memory(sizeof(long double _Complex));
        clear(slots[i].memory, sizeof(long double _Complex));
        if (i == due) {
            *(void **)slots[i].memory = slots[i].inner = (sandbox_size *)sandbox_memory(sizeof(long double));
            clear(slots[i].inner, sizeof(long double));
        } else if (fill && is_length(parameters, i)) {
            sandbox_copy(slots[i].memory, &slots[i - 1].length, size_of(parameters[i].code) < 8 ? size_of(parameters[i].code) : 8);
        } else if (++position && !take(in, parameters[i].code, slots[i].memory, &slots[i].length, &slots[i].inner)) {
            sandbox_argument_error(out, position);
            return 0;
        }
    }
    return sandbox_no_keywords(in, out);
}

/* -- writing */

static double load_floating(const char *place, sandbox_size size) {
    float narrow;
    double usual;
    long double wide;
    if (size == sizeof narrow) {
        sandbox_copy(&narrow, place, sizeof narrow);
        return narrow;
    }
    if (size == sizeof usual) {
        sandbox_copy(&usual, place, sizeof usual);
        return usual;
    }
    sandbox_copy(&wide, place, sizeof wide);
    return (double)wide;
}

static sandbox_int load_integer(int code, const void *place) {
    sandbox_int value = {0, 0};
    sandbox_copy(&value.bits, place, size_of(code));
    int bits = 8 * (int)size_of(code);
    value.negative = kind_of(code) == 'i' && (int)(value.bits >> (bits - 1) & 1);
    if (value.negative && bits < 128) value.bits |= ~(sandbox_wide)0 << bits;
    return value;
}

static void put(sandbox_out *out, int code, const void *place, sandbox_size length, const sandbox_size *inner) {
    const char *at = (const char *)place;
    if (pointers_of(code)) {
        at = *(const char *const *)place;
        if (at == NULL) {
            sandbox_put_none(out);
        } else if (!is_array(code)) {
            sandbox_put_text(out, at, sandbox_length(at, (sandbox_size)-1));
        } else if (sandbox_open(out, 'l', length)) {
            int item = pointed_to(code);
            for (sandbox_size i = 0; i < length; i++)
                put(out, item, at + i * place_of(item), inner ? inner[i] : 0, NULL);
            sandbox_close(out);
        }
        return;
    }
    switch (kind_of(code)) {
    case 'b': sandbox_put_bool(out, *(const _Bool *)place); break;
    case 'c': sandbox_put_text(out, at, 1); break;
    case 'f': sandbox_put_double(out, load_floating(at, size_of(code))); break;
    case 'x':
        sandbox_put_complex(out, load_floating(at, size_of(code) / 2), load_floating(at + size_of(code) / 2, size_of(code) / 2));
        break;
    default: sandbox_put_integer(out, load_integer(code, place));
    }
}

static int is_changed(int code) { return pointers_of(code) && !is_fixed(code); }

static void put_changed(sandbox_out *out, const sandbox_parameter *parameters, int count, const sandbox_slot *slots) {
    sandbox_size changes = 0;
    for (int i = 0; i < count; i++) changes += (sandbox_size)is_changed(parameters[i].code);
    if (changes == 0) sandbox_put_none(out);
    if (changes > 1 && !sandbox_open(out, 't', changes)) return;
    for (int i = 0; i < count; i++)
        if (is_changed(parameters[i].code)) put(out, parameters[i].code, slots[i].memory, slots[i].length, slots[i].inner);
}

void sandbox_c_put(sandbox_out *out, const sandbox_parameter *parameters, int count, int gives,
                   const void *result, const sandbox_slot *slots) {
    sandbox_value(out);
    if (gives == -1) {
        put_changed(out, parameters, count, slots);
    } else if (gives == 0) {
        sandbox_put_refusal(out, "it has no encoding");
    } else if (!is_array(gives)) {
        put(out, gives, result, 0, NULL);
    } else if (has_length(parameters, count, gives)) {
        sandbox_int length = load_integer(pointed_to(parameters[count - 1].code), slots[count - 1].inner);
        if (pointers_of(gives) == 2 && kind_of(gives) != 'c')
            sandbox_put_refusal(out, "the lengths of its rows are not known");
        else if (length.negative || length.bits >> 32)
            sandbox_put_refusal(out, "the length that was told is no length of a list");
        else if (*(void *const *)result == NULL && length.bits == 0)
            sandbox_open(out, 'l', 0);
        else
            put(out, gives, result, (sandbox_size)length.bits, NULL);
    } else if (*(void *const *)result == NULL) {
        sandbox_put_none(out);
    } else {
        sandbox_put_refusal(out, "its length is not known; a last parameter `int *returnSize` would tell");
    }
    if (out->refused) sandbox_unencodable(out, gives < 0 ? "void" : describe(gives));
}

const char *sandbox_c_missing(const char *name, const sandbox_parameter *parameters, int count) {
    static char text[600];
    for (int i = 0; i < count; i++)
        if (parameters[i].code == 0) {
            snprintf(text, sizeof text, "%.100s has the parameter `%.400s`, which no value fits", name, parameters[i].text);
            return text;
        }
    return NULL;
}

/* The streams of C are the only ones here, and those are flushed anyway. */
void sandbox_flush(void) {}
