/* Calls a C function with arguments decoded as its parameter types ask.

   bool <-> bool; char <-> str of one ASCII character; the other integers and enums <-> int, in range; floating
   <-> float (an int goes in too); complex <-> complex; char * <-> str without NUL (or bytes where it is no
   UTF-8) or None. T * of the other types is made of a list or tuple, a copy that lives on, or of None;
   char ** and T ** of a list of those. Nothing else crosses: void *, structures, pointers to functions.

   A call gives all arguments; or it leaves out each integer that comes right after a T * or char **, all of
   them together, and then each of these is the length of the list before it.

   A function that returns T * or char ** tells the length by its last parameter, if that is a pointer to an
   integer (`int *returnSize`): no call gives it, and the result is a list. Without one there is no result but
   None, for a null pointer; anything else is unencodable.

   A function that returns void returns what it changed: the argument of its one parameter that is a pointer to
   something not const, as it is after the call; a tuple of them where there are more, None where there is
   none. */

#ifndef SANDBOX_CALLS_C_H
#define SANDBOX_CALLS_C_H

#include "calls.h"

/* A type: its class, one of b(ool), c(har), i(nteger), u(nsigned), f(loating), x (complex), its size, how many
   pointers lead to it, and whether what is behind them may be changed. 0 is a type that cannot cross. */
#define SANDBOX_TYPE(kind, type, pointers, fixed) ((kind) | (int)sizeof(type) << 8 | (pointers) << 16 | (fixed) << 20)
#define SANDBOX_EACH(type, kind)                                                                                \
    type: SANDBOX_TYPE(kind, type, 0, 0), type *: SANDBOX_TYPE(kind, type, 1, 0),                               \
    const type *: SANDBOX_TYPE(kind, type, 1, 1), type **: SANDBOX_TYPE(kind, type, 2, 0),                      \
    const type **: SANDBOX_TYPE(kind, type, 2, 1), type *const *: SANDBOX_TYPE(kind, type, 2, 1),               \
    const type *const *: SANDBOX_TYPE(kind, type, 2, 1)
#define SANDBOX_CODE(value)                                                                                     \
    _Generic((value), SANDBOX_EACH(_Bool, 'b'), SANDBOX_EACH(char, 'c'), SANDBOX_EACH(signed char, 'i'),        \
             SANDBOX_EACH(unsigned char, 'u'), SANDBOX_EACH(short, 'i'), SANDBOX_EACH(unsigned short, 'u'),     \
             SANDBOX_EACH(int, 'i'), SANDBOX_EACH(unsigned, 'u'), SANDBOX_EACH(long, 'i'),                      \
             SANDBOX_EACH(unsigned long, 'u'), SANDBOX_EACH(long long, 'i'),                                    \
             SANDBOX_EACH(unsigned long long, 'u'), SANDBOX_EACH(__int128, 'i'),                                \
             SANDBOX_EACH(unsigned __int128, 'u'), SANDBOX_EACH(float, 'f'), SANDBOX_EACH(double, 'f'),         \
             SANDBOX_EACH(long double, 'f'), SANDBOX_EACH(float _Complex, 'x'),                                 \
             SANDBOX_EACH(double _Complex, 'x'), SANDBOX_EACH(long double _Complex, 'x'), default: 0)

typedef struct {
    int code;
    const char *text;
} sandbox_parameter;

/* One argument: where its value lies, and the lengths of the lists that it points to. */
typedef struct {
    void *memory;
    sandbox_size length, *inner;
} sandbox_slot;

/* A driver: `count` parameters, and the call itself, whose arguments are in `slots`. */
#define SANDBOX_VOID(call) __builtin_types_compatible_p(__typeof__(call), void)
#define SANDBOX_VALUE(call) __builtin_choose_expr(SANDBOX_VOID(call), ((call), 0), (call))
#define SANDBOX_C_DRIVER(name, count, call)                                                                     \
    const char *sandbox_missing(void) { return sandbox_c_missing(name, sandbox_parameters, count); }            \
    void sandbox_call(sandbox_in *in, sandbox_out *out) {                                                       \
        sandbox_slot slots[(count) + 1] = {{0, 0, 0}};                                                          \
        int gives = SANDBOX_VOID(call) ? 0 : SANDBOX_CODE(SANDBOX_VALUE(call));                                 \
        if (!sandbox_c_take(in, out, sandbox_parameters, count, gives, slots)) return;                          \
        __auto_type result = SANDBOX_VALUE(call);                                                               \
        sandbox_c_put(out, sandbox_parameters, count, SANDBOX_VOID(call) ? -1 : gives, &result, slots);         \
    }

const char *sandbox_c_missing(const char *name, const sandbox_parameter *parameters, int count);
/* Reads the arguments into `slots`; 0, and an outcome, where they do not fit. `gives` is the result's type. */
int sandbox_c_take(sandbox_in *in, sandbox_out *out, const sandbox_parameter *parameters, int count, int gives,
                   sandbox_slot *slots);
/* Writes the outcome: the result, or where `gives` is -1 what the function has changed. */
void sandbox_c_put(sandbox_out *out, const sandbox_parameter *parameters, int count, int gives,
                   const void *result, const sandbox_slot *slots);

#endif
