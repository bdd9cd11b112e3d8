// Calls the solution's function with arguments decoded as its parameter types ask.
//
// The function may be free or a method of `Solution` (made anew, by default, for each call), a function object
// or a lambda. Its parameters are found by deduction. Of an overloaded function the one overload with as many
// parameters as the call has arguments (at most 8) is meant; default arguments may be left out. A template, and
// overloads that differ in types alone, are called with the types that the planner chose by the values
// (`sandbox_natural`).
//
// Where a call gives fewer arguments than there are parameters, by as many as there are integers right after a
// T * that takes a list, each of those integers is the length of its list.
//
// A function that returns void returns what it changed: the argument of its one parameter that is a reference
// or a pointer to something not const, a tuple of them where there are more, None where there is none.

#pragma once

#include "values.hpp"

namespace sandbox_harness {

// -- which function is meant

template <class R, class... P> struct signature {
    static constexpr size_type count = sizeof...(P);
    static constexpr bool callable = (supported<bare<P>> && ...);
};

// T only makes the call dependent, so that a set of overloads is no error but a failed substitution.
template <class T, class R, class... P> signature<R, P...> find(R (*)(P...));
template <class T, class C, class R, class... P> signature<R, P...> find(R (C::*)(P...));
template <class T, class C, class R, class... P> signature<R, P...> find(R (C::*)(P...) const);
template <class T, class C, class R, class... P> signature<R, P...> find(R (C::*)(P...) &);
template <class T, class C, class R, class... P> signature<R, P...> find(R (C::*)(P...) const &);
template <class T, class F> requires ::std::is_class_v<F>
auto find(F *) -> decltype(::sandbox_harness::find<T>(&F::operator()));

// One overload a number of parameters: deduction then tries each overload and takes the only one that fits.
constexpr size_type most_by_count = 8;
template <size_type N> struct count {};
template <class T, class R> signature<R> find_by(count<0>, R (*)());
template <class T, class C, class R> signature<R> find_by(count<0>, R (C::*)());
template <class T, class C, class R> signature<R> find_by(count<0>, R (C::*)() const);
#define SANDBOX_INNER(...) __VA_ARGS__
#define SANDBOX_COUNT(n, names, types)                                                                          \
    template <class T, class R, SANDBOX_INNER names> signature<R, SANDBOX_INNER types> find_by(count<n>, R(*) types); \
    template <class T, class S, class R, SANDBOX_INNER names>                                                   \
    signature<R, SANDBOX_INNER types> find_by(count<n>, R(S::*) types);                                         \
    template <class T, class S, class R, SANDBOX_INNER names>                                                   \
    signature<R, SANDBOX_INNER types> find_by(count<n>, R(S::*) types const);
SANDBOX_COUNT(1, (class A), (A))
SANDBOX_COUNT(2, (class A, class B), (A, B))
SANDBOX_COUNT(3, (class A, class B, class C), (A, B, C))
SANDBOX_COUNT(4, (class A, class B, class C, class D), (A, B, C, D))
SANDBOX_COUNT(5, (class A, class B, class C, class D, class E), (A, B, C, D, E))
SANDBOX_COUNT(6, (class A, class B, class C, class D, class E, class F), (A, B, C, D, E, F))
SANDBOX_COUNT(7, (class A, class B, class C, class D, class E, class F, class G), (A, B, C, D, E, F, G))
SANDBOX_COUNT(8, (class A, class B, class C, class D, class E, class F, class G, class H), (A, B, C, D, E, F, G, H))
#undef SANDBOX_COUNT
#undef SANDBOX_INNER

// The types that a template is called with, where the planner chose any.
template <class... P> struct natural {};

template <class X> concept has_whole = requires { typename X::template whole<int>; };
template <class X, size_type N> concept has_with = requires { typename X::template with<int, N>; };
template <class X, class... P> concept takes = requires { X::call(::std::declval<P>()...); };

// The first N of some parameters, as the signature of a call that leaves the others to their default.
template <class X, size_type N, class S, class... P> struct first;
template <class X, class... Q, class... P> struct first<X, 0, signature<void, Q...>, P...> {
    static constexpr bool possible = takes<X, Q...>;
    using type = signature<void, Q...>;
};
template <class X, size_type N, class... Q, class P, class... Rest> requires(N > 0)
struct first<X, N, signature<void, Q...>, P, Rest...> : first<X, N - 1, signature<void, Q..., P>, Rest...> {};

// -- what a call comes to

template <class X> bool describe_text(sandbox_out &out) {
    try {
        throw;
    } catch (const text_of<X> &text) {
        sandbox_error(&out, "std::string", text.c_str(), "");
        return true;
    } catch (...) {
        return false;
    }
}

inline bool starts(const char *text, const char *with) { return __builtin_strncmp(text, with, __builtin_strlen(with)) == 0; }

// The exception that is being handled.
template <class X> void describe(sandbox_out &out) {
    const ::std::type_info *thrown = ::__cxxabiv1::__cxa_current_exception_type();
    type_name name(thrown ? *thrown : typeid(void));
    const char *type = name.get();
    // That name says that the fault is the caller's.
    if (__builtin_strcmp(type, "ArgumentError") == 0) type = "own.ArgumentError";
    try {
        throw;
    } catch (const ::std::exception &error) {
        const char *cause = "";
        if (__builtin_strcmp(type, "std::bad_alloc") == 0) cause = "memory";
        if (starts(type, "std::system_error") && starts(error.what(), "Resource temporarily unavailable")) cause = "processes";
        sandbox_error(&out, type, error.what(), cause);
    } catch (const char *text) {
        sandbox_error(&out, type, text ? text : "", "");
    } catch (int number) {
        char text[16];
        __builtin_snprintf(text, sizeof text, "%d", number);
        sandbox_error(&out, type, text, "");
    } catch (...) {
        if constexpr (string_known<X>)
            if (describe_text<X>(out)) return;
        sandbox_error(&out, type, "", "");
    }
}

template <size_type I, class P> struct slot {
    bare<P> value{};
    size_type length = 0; // of the list that a pointer was made of
};

template <class P> concept changed =
    (::std::is_lvalue_reference_v<P> && !::std::is_const_v<::std::remove_reference_t<P>>) ||
    ((text_pointer<bare<P>> || item_pointer<bare<P>>)&&!::std::is_const_v<::std::remove_pointer_t<bare<P>>>) ||
    (span<bare<P>> && requires(bare<P> &s) { requires !::std::is_const_v<typename bare<P>::element_type>; });

template <size_type I, class P> void put_changed(sandbox_out &out, const slot<I, P> &one) {
    if constexpr (item_pointer<bare<P>>) {
        if (!one.value) return sandbox_put_none(&out);
        if (!sandbox_open(&out, 'l', one.length)) return;
        for (size_type i = 0; i < one.length; i++) put<target<bare<P>>>(out, one.value[i]);
        sandbox_close(&out);
    } else {
        put(out, one.value);
    }
}

template <class X, class... P, size_type... I>
void perform(sandbox_in &in, sandbox_out &out, bool fill, signature<void, P...>, ::std::index_sequence<I...>) {
    struct frame : slot<I, P>... {};
    static constexpr bool pointers[] = {false, item_pointer<bare<P>>...};
    frame all;
    int position = 0;
    size_type length = 0;
    auto read = [&]<size_type K, class Q>(slot<K, Q> &one) {
        if constexpr (pointers[K] && integer<bare<Q>>)
            if (fill) {
                one.value = static_cast<bare<Q>>(length);
                return true;
            }
        position++;
        sandbox_in ahead = in;
        if constexpr (item_pointer<bare<Q>>) one.length = length = is_list(in) ? sandbox_take_count(&ahead) : 0;
        return take(in, one.value);
    };
    if (!(read(static_cast<slot<I, P> &>(all)) && ...)) return sandbox_argument_error(&out, position);
    if (!sandbox_no_keywords(&in, &out)) return;
    using result = decltype(X::call(::std::declval<P>()...));
    try {
        if constexpr (::std::is_void_v<result>) {
            X::call(static_cast<P &&>(static_cast<slot<I, P> &>(all).value)...);
            constexpr size_type changes = (size_type(changed<P>) + ... + 0);
            sandbox_value(&out);
            if (changes == 0) sandbox_put_none(&out);
            if (changes < 2 || sandbox_open(&out, 't', changes)) {
                auto write = [&]<size_type K, class Q>(const slot<K, Q> &one) {
                    if constexpr (changed<Q>) put_changed(out, one);
                };
                (write(static_cast<slot<I, P> &>(all)), ...);
            }
        } else {
            result value = X::call(static_cast<P &&>(static_cast<slot<I, P> &>(all).value)...);
            sandbox_value(&out);
            put<bare<result>>(out, value);
        }
    } catch (const ::__cxxabiv1::__forced_unwind &) {
        throw;
    } catch (...) {
        return describe<X>(out);
    }
    if (out.refused) sandbox_unencodable(&out, type_name(typeid(result)).get());
}

// Calls with the first `given` of the parameters, where the others have defaults.
template <class X, class R, class... P, size_type... N>
bool with_defaults(sandbox_in &in, sandbox_out &out, size_type given, signature<R, P...>, ::std::index_sequence<N...>) {
    auto attempt = [&]<size_type K>(count<K>) {
        using some = first<X, K, signature<void>, P...>;
        if constexpr (some::possible)
            if (given == K) {
                perform<X>(in, out, false, typename some::type(), ::std::make_index_sequence<K>());
                return true;
            }
        return false;
    };
    return (attempt(count<N>()) || ...);
}

template <class X, class R, class... P>
void call(sandbox_in &in, sandbox_out &out, size_type given, signature<R, P...> meant) {
    static constexpr bool pointers[] = {false, item_pointer<bare<P>>...}, integers[] = {integer<bare<P>>..., false};
    constexpr size_type most = sizeof...(P);
    constexpr size_type lengths = [] {
        size_type found = 0;
        for (size_type i = 0; i < most; i++) found += pointers[i] && integers[i];
        return found;
    }();
    if (given == most || (lengths && given == most - lengths))
        return perform<X>(in, out, given != most, signature<void, P...>(), ::std::make_index_sequence<most>());
    if (with_defaults<X>(in, out, given, meant, ::std::make_index_sequence<most>())) return;
    char due[64];
    __builtin_snprintf(due, sizeof due, "%lu arguments were due", static_cast<unsigned long>(most));
    sandbox_arity_error(&out, due, given);
}

template <class X, class... P>
bool call_natural(sandbox_in &in, sandbox_out &out, size_type given, natural<P...>) {
    if constexpr (takes<X, P...>)
        if (given == sizeof...(P)) {
            perform<X>(in, out, false, signature<void, P...>(), ::std::make_index_sequence<sizeof...(P)>());
            return true;
        }
    return false;
}

template <class X, size_type... N> constexpr bool any_with(::std::index_sequence<N...>) { return (has_with<X, N> || ...); }
using counts = ::std::make_index_sequence<most_by_count + 1>;

template <class X, size_type... N>
void call_overload(sandbox_in &in, sandbox_out &out, size_type given, ::std::index_sequence<N...>) {
    auto attempt = [&]<size_type K>(count<K>) {
        if constexpr (has_with<X, K>) {
            using meant = typename X::template with<int, K>;
            if constexpr (meant::callable)
                if (given == K) {
                    call<X>(in, out, given, meant());
                    return true;
                }
        }
        return false;
    };
    if ((attempt(count<N>()) || ...) || call_natural<X>(in, out, given, typename X::natural())) return;
    sandbox_arity_error(&out, "no overload takes these arguments", given);
}

template <class X, class R, class... P> const char *unfit(signature<R, P...>) {
    static char text[400];
    if constexpr (signature<R, P...>::callable) return nullptr;
    bool told = false;
    auto tell = [&](bool fits, const ::std::type_info &type) {
        if (!fits && !told) __builtin_snprintf(text, sizeof text, "%s takes a %.200s, which no value fits", X::text, type_name(type).get());
        told = told || !fits;
    };
    (tell(supported<bare<P>>, typeid(P)), ...);
    return text;
}

template <class X, class... P> constexpr bool natural_fits(natural<P...>) { return takes<X, P...>; }

template <class X> const char *missing() {
    if constexpr (has_whole<X>) return unfit<X>(typename X::template whole<int>());
    if constexpr (any_with<X>(counts()) || natural_fits<X>(typename X::natural())) return nullptr;
    static char text[400];
    __builtin_snprintf(text, sizeof text, "%s is a template, or overloaded, and cannot be called with these types", X::text);
    return text;
}

template <class X> void run(sandbox_in &in, sandbox_out &out) {
    size_type given = sandbox_begin(&in);
    if constexpr (has_whole<X>) {
        using meant = typename X::template whole<int>;
        if constexpr (meant::callable) call<X>(in, out, given, meant());
    } else {
        call_overload<X>(in, out, given, counts());
    }
}

}

// What the driver ends with: `function` is how the function is named, after `scope`, from the global namespace.
#define SANDBOX_FREE(name, function, ...) SANDBOX_ENTRY(name, &function, function, __VA_ARGS__)
#define SANDBOX_METHOD(name, type, method, ...) \
    SANDBOX_ENTRY(name, &type::method, (new type())->method, __VA_ARGS__)
#define SANDBOX_ENTRY(name, address, function, ...)                                                             \
    struct sandbox_entry {                                                                                      \
        static constexpr const char *text = name;                                                               \
        template <class T> using whole = decltype(::sandbox_harness::find<T>(address));                         \
        template <class T, ::sandbox_harness::size_type N> using with =                                         \
            decltype(::sandbox_harness::find_by<T>(::sandbox_harness::count<N>(), address));                    \
        template <class... A> static auto call(A &&...a) -> decltype(function(static_cast<A &&>(a)...)) {       \
            return function(static_cast<A &&>(a)...);                                                           \
        }                                                                                                       \
        using natural = ::sandbox_harness::natural<__VA_ARGS__>;                                                \
    };                                                                                                          \
    const char *sandbox_missing() { return ::sandbox_harness::missing<sandbox_entry>(); }                       \
    void sandbox_call(sandbox_in *in, sandbox_out *out) { ::sandbox_harness::run<sandbox_entry>(*in, *out); }
