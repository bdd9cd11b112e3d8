// Values of C++ from and to the codec, as the C++ type asks.
//
// bool <-> bool; integers and enums <-> int, in range; characters <-> str of one (a char is ASCII); floating <->
// float (an int goes in too); complex <-> complex; strings, string_view, char pointers <-> str, or bytes where it
// is no UTF-8; pair, tuple <-> tuple (a list goes in too); vector, deque, list, array, span <-> list (a tuple or
// deque goes in too); map, unordered_map <-> dict; set, unordered_set <-> set or frozenset; multiset, multimap ->
// list; optional, unique_ptr, shared_ptr <-> None or what they hold; variant <-> the alternative that is nearest;
// any <-> None, bool, int, float or str. In a set and as a key of a dict a list becomes a tuple.
//
// T * of other types is made of a list (a copy of its items, which lives on) or None; what a returned pointer
// points to has no length, so it has no encoding.

#pragma once

#include "types.hpp"

namespace sandbox_harness {

// -- reading: each answers whether the value fits, and remembers the reason where it does not

template <class T> bool take(sandbox_in &in, T &value);

template <class T> bool mismatch(const sandbox_in &in) {
    return sandbox_mismatch(type_name(typeid(T)).get(), &in);
}

template <class T> bool mismatch(const char *given) {
    return sandbox_mismatch_text(type_name(typeid(T)).get(), given);
}

inline bool is_text(const sandbox_in &in) {
    int tag = sandbox_peek(&in);
    return tag == 's' || tag == 'b' || tag == 'a';
}

inline bool is_list(const sandbox_in &in) {
    int tag = sandbox_peek(&in);
    return tag == 'l' || tag == 't' || tag == 'q';
}

inline bool is_dict(const sandbox_in &in) {
    int tag = sandbox_peek(&in);
    return tag == 'm' || tag == 'o' || tag == 'k' || tag == 'f';
}

inline bool is_set(const sandbox_in &in) {
    int tag = sandbox_peek(&in);
    return tag == 'S' || tag == 'Z';
}

inline bool take_none(sandbox_in &in) {
    bool none = sandbox_peek(&in) == 'N';
    in.at += none;
    return none;
}

// What is read before it goes into its container.
template <class T> struct box {
    bare<T> value{};
};

template <class T> bool take_boolean(sandbox_in &in, T &value) {
    int tag = sandbox_peek(&in);
    if (tag != 'T' && tag != 'F') return mismatch<T>(in);
    in.at++;
    value = tag == 'T';
    return true;
}

template <class T> sandbox_int integer_of(T value) {
    bool negative = value < T(0);
    if (negative) return {static_cast<sandbox_wide>(static_cast<__int128>(value)), true};
    return {static_cast<sandbox_wide>(value), false};
}

template <class T> bool take_integer(sandbox_in &in, T &value) {
    sandbox_int given;
    if (sandbox_peek(&in) != 'i') return mismatch<T>(in);
    if (!sandbox_take_integer(&in, &given)) return mismatch<T>("an int out of its range");
    value = static_cast<T>(given.bits);
    sandbox_int back = integer_of(value);
    return (back.bits == given.bits && back.negative == given.negative) || mismatch<T>("an int out of its range");
}

// While a variant looks for the alternative that is nearest, an int is no float.
inline bool exact = false;

template <class T> bool take_floating(sandbox_in &in, T &value) {
    if (sandbox_peek(&in) == 'd') {
        value = static_cast<T>(sandbox_take_double(&in));
        return true;
    }
    sandbox_int given;
    if (sandbox_peek(&in) != 'i' || exact) return mismatch<T>(in);
    if (!sandbox_take_integer(&in, &given)) return mismatch<T>("an int of more than 128 bits");
    value = given.negative ? -static_cast<T>(-given.bits) : static_cast<T>(given.bits);
    return true;
}

template <class T> bool take_complex(sandbox_in &in, T &value) {
    using part = bare<decltype(value.real())>;
    part real = 0, imaginary = 0;
    if (sandbox_peek(&in) == 'c') {
        real = static_cast<part>(sandbox_take_double(&in));
        in.at--; // the second number has no tag of its own
        imaginary = static_cast<part>(sandbox_take_double(&in));
    } else if (!take_floating(in, real)) {
        return mismatch<T>(in);
    }
    value = T(real, imaginary);
    return true;
}

template <class T> bool take_character(sandbox_in &in, T &value) {
    constexpr long most = sizeof(T) == 1 ? 0x7f : sizeof(T) == 2 ? 0xffff : 0x10ffff;
    if (sandbox_peek(&in) != 's') return mismatch<T>(in);
    long code = sandbox_take_character(&in);
    if (code < 0 || code > most) return mismatch<T>("a str of anything but one such character");
    value = static_cast<T>(code);
    return true;
}

// Hands each code unit of the text that is next to `add`.
template <class C, class F> void take_units(sandbox_in &in, F add) {
    bool decoded = sizeof(C) > 1 && sandbox_peek(&in) == 's';
    size_type size;
    const unsigned char *text = sandbox_take_blob(&in, &size);
    for (size_type at = 0; at < size;) {
        unsigned long code = text[at++];
        if (decoded && code >= 0xc0) {
            int more = code < 0xe0 ? 1 : code < 0xf0 ? 2 : 3;
            for (code &= 0x3f >> more; more; more--) code = code << 6 | (text[at++] & 0x3f);
        }
        if (sizeof(C) == 2 && code > 0xffff) {
            add(static_cast<C>(0xd800 + ((code - 0x10000) >> 10)));
            code = 0xdc00 + (code & 0x3ff);
        }
        add(static_cast<C>(code));
    }
}

// A copy of the text that is next, with a NUL after it.
template <class C> C *take_copy(sandbox_in &in, size_type &size) {
    sandbox_in ahead = in;
    sandbox_take_blob(&ahead, &size);
    C *copy = static_cast<C *>(sandbox_memory((size + 1) * sizeof(C)));
    size = 0;
    take_units<C>(in, [&](C unit) { copy[size++] = unit; });
    copy[size] = C();
    return copy;
}

template <class T> bool take_text_pointer(sandbox_in &in, T &value) {
    size_type size;
    value = nullptr;
    if (take_none(in)) return true;
    if (!is_text(in)) return mismatch<T>(in);
    auto *text = take_copy<target<T>>(in, size);
    value = text;
    for (size_type i = 0; i < size; i++)
        if (text[i] == 0) return mismatch<T>("a str with a NUL in it");
    return true;
}

template <class T> bool take_items(sandbox_in &in, T *&items, size_type &size) {
    if (!is_list(in)) return mismatch<T *>(in);
    size = sandbox_take_count(&in);
    items = static_cast<T *>(sandbox_memory(size * sizeof(T)));
    for (size_type i = 0; i < size; i++)
        if (!take(in, *::new (static_cast<void *>(items + i)) T())) return false;
    return true;
}

template <class T, size_type... I> bool take_parts(sandbox_in &in, T &value, ::std::index_sequence<I...>) {
    using ::sandbox_harness::get;
    if (!is_list(in)) return mismatch<T>(in);
    if (sandbox_take_count(&in) != sizeof...(I)) return mismatch<T>("one of another length");
    return (take(in, get<I>(value)) && ...);
}

template <class V, class T> bool take_alternative(sandbox_in &in, V &value) {
    sandbox_in from = in;
    box<T> made;
    if (take(in, made.value)) {
        value = static_cast<T &&>(made.value);
        return true;
    }
    in = from;
    return false;
}

template <template <class...> class V, class... T> bool take_variant(sandbox_in &in, V<T...> &value) {
    bool outer = ::std::exchange(exact, true);
    bool found = (take_alternative<V<T...>, T>(in, value) || ...);
    exact = outer;
    return found || (!exact && (take_alternative<V<T...>, T>(in, value) || ...)) || mismatch<V<T...>>(in);
}

template <class T> bool take_any(sandbox_in &in, T &value) {
    switch (sandbox_peek(&in)) {
    case 'N': value.reset(); return take_none(in);
    case 'T':
    case 'F': return take_alternative<T, bool>(in, value);
    case 'd': return take_alternative<T, double>(in, value);
    case 'i': return take_alternative<T, int>(in, value) || take_alternative<T, long long>(in, value);
    case 's':
        if constexpr (string_known<T>) return take_alternative<T, text_of<T>>(in, value);
        [[fallthrough]];
    default: return mismatch<T>(in);
    }
}

template <class T> bool take_map(sandbox_in &in, T &value) {
    if (!is_dict(in)) return mismatch<T>(in);
    for (size_type left = sandbox_take_count(&in); left; left--) {
        box<typename T::key_type> key;
        box<typename T::mapped_type> mapped;
        if (!take(in, key.value) || !take(in, mapped.value)) return false;
        value.emplace(::std::move(key.value), ::std::move(mapped.value));
    }
    return true;
}

template <class T> bool take_set(sandbox_in &in, T &value) {
    if (!is_set(in) && !(!unique<T> && is_list(in))) return mismatch<T>(in);
    for (size_type left = sandbox_take_count(&in); left; left--) {
        box<typename T::value_type> item;
        if (!take(in, item.value)) return false;
        value.insert(::std::move(item.value));
    }
    return true;
}

template <class T> bool take_sequence(sandbox_in &in, T &value) {
    if constexpr (one_of<typename T::value_type, unsigned char> && back<T>)
        if (int tag = sandbox_peek(&in); tag == 'b' || tag == 'a') {
            take_units<unsigned char>(in, [&](unsigned char unit) { value.push_back(unit); });
            return true;
        }
    if (!is_list(in)) return mismatch<T>(in);
    for (size_type left = sandbox_take_count(&in); left; left--) {
        box<typename T::value_type> item;
        if (!take(in, item.value)) return false;
        if constexpr (front<T>)
            value.push_front(::std::move(item.value));
        else
            value.push_back(::std::move(item.value));
    }
    if constexpr (front<T>) value.reverse();
    return true;
}

template <class T> bool take(sandbox_in &in, T &value) {
    if constexpr (boolean<T>) {
        return take_boolean(in, value);
    } else if constexpr (character<T>) {
        return take_character(in, value);
    } else if constexpr (integer<T>) {
        return take_integer(in, value);
    } else if constexpr (floating<T>) {
        return take_floating(in, value);
    } else if constexpr (enumeration<T>) {
        box<::std::underlying_type_t<T>> number;
        if (!take(in, number.value)) return false;
        value = static_cast<T>(number.value);
        return true;
    } else if constexpr (null<T>) {
        return take_none(in) || mismatch<T>(in);
    } else if constexpr (complex<T>) {
        return take_complex(in, value);
    } else if constexpr (optional<T>) {
        value.reset();
        return take_none(in) || take_alternative<T, bare<typename T::value_type>>(in, value);
    } else if constexpr (any<T>) {
        return take_any(in, value);
    } else if constexpr (handle<T>) {
        if (take_none(in)) return true;
        auto *made = new bare<typename T::element_type>();
        value = T(made);
        return take(in, *made);
    } else if constexpr (text_pointer<T>) {
        return take_text_pointer(in, value);
    } else if constexpr (item_pointer<T>) {
        target<T> *items = nullptr;
        size_type size;
        bool fits = take_none(in) || take_items(in, items, size);
        value = items;
        return fits;
    } else if constexpr (string<T>) {
        if (!is_text(in)) return mismatch<T>(in);
        take_units<typename T::value_type>(in, [&](typename T::value_type unit) { value.push_back(unit); });
        return true;
    } else if constexpr (view<T>) {
        size_type size;
        if (!is_text(in)) return mismatch<T>(in);
        auto *text = take_copy<typename T::value_type>(in, size);
        value = T(text, size);
        return true;
    } else if constexpr (variant<T>) {
        return take_variant(in, value);
    } else if constexpr (array<T>) {
        if (!is_list(in)) return mismatch<T>(in);
        if (sandbox_take_count(&in) != value.size()) return mismatch<T>("one of another length");
        for (auto &item : value)
            if (!take(in, item)) return false;
        return true;
    } else if constexpr (tuple<T>) {
        return take_parts(in, value, parts<T>());
    } else if constexpr (span<T>) {
        bare<typename T::element_type> *items;
        size_type size;
        if (!take_items(in, items, size)) return false;
        value = T(items, size);
        return true;
    } else if constexpr (map<T>) {
        return take_map(in, value);
    } else if constexpr (set<T>) {
        return take_set(in, value);
    } else if constexpr (sequence<T>) {
        return take_sequence(in, value);
    } else {
        return mismatch<T>(in);
    }
}

// -- writing

template <class T> void put(sandbox_out &out, const T &value);

template <class C> void put_units(sandbox_out &out, const C *text, size_type size) {
    if constexpr (sizeof(C) == 1) {
        sandbox_put_text(&out, reinterpret_cast<const char *>(text), size);
    } else {
        char *bytes = static_cast<char *>(sandbox_memory(4 * size));
        size_type filled = 0;
        for (size_type i = 0; i < size; i++) {
            unsigned long code = static_cast<::std::make_unsigned_t<C>>(text[i]);
            if (sizeof(C) == 2 && code >> 10 == 0x36 && i + 1 < size && text[i + 1] >> 10 == 0x37)
                code = 0x10000 + ((code & 0x3ff) << 10) + (text[++i] & 0x3ff);
            size_type more = sandbox_utf8(code, bytes + filled);
            if (!more) sandbox_put_refusal(&out, "a character beyond U+10FFFF");
            filled += more;
        }
        sandbox_put_text(&out, bytes, filled);
        __builtin_free(bytes);
    }
}

template <class T> void put_list(sandbox_out &out, const T &value) {
    size_type count = 0;
    for (auto at = value.begin(); at != value.end(); ++at) count++;
    if (!sandbox_open(&out, 'l', count)) return;
    // By value: the items of a vector<bool> are made when they are asked for.
    for (auto at = value.begin(); at != value.end(); ++at) put<bare<typename T::value_type>>(out, *at);
    sandbox_close(&out);
}

template <class T> void put_map(sandbox_out &out, const T &value) {
    if (!sandbox_open(&out, 'm', value.size())) return;
    for (const auto &item : value) {
        out.frozen++;
        put(out, item.first);
        out.frozen--;
        put(out, item.second);
    }
    sandbox_close(&out);
}

template <class T> void put_set(sandbox_out &out, const T &value) {
    sandbox_set marks;
    if (!sandbox_open_set(&out, &marks, value.size())) return;
    for (const auto &item : value) {
        put(out, item);
        sandbox_item(&out, &marks);
    }
    sandbox_close_set(&out, &marks);
}

template <class T, size_type... I> void put_parts(sandbox_out &out, const T &value, ::std::index_sequence<I...>) {
    using ::sandbox_harness::get;
    if (!sandbox_open(&out, 't', sizeof...(I))) return;
    (put(out, get<I>(value)), ...);
    sandbox_close(&out);
}

template <class U, class T> bool put_if(sandbox_out &out, const T &value) {
    using ::sandbox_harness::any_cast;
    if (value.type() != typeid(U)) return false;
    put(out, *any_cast<U>(&value));
    return true;
}

template <class T> bool put_any(sandbox_out &out, const T &value) {
    if constexpr (string_known<T>)
        if (put_if<text_of<T>>(out, value)) return true;
    return put_if<bool>(out, value) || put_if<char>(out, value) || put_if<int>(out, value) ||
           put_if<long>(out, value) || put_if<long long>(out, value) || put_if<unsigned>(out, value) ||
           put_if<unsigned long>(out, value) || put_if<unsigned long long>(out, value) ||
           put_if<double>(out, value) || put_if<float>(out, value) || put_if<const char *>(out, value);
}

template <class T> void put(sandbox_out &out, const T &value) {
    if constexpr (boolean<T>) {
        sandbox_put_bool(&out, value);
    } else if constexpr (character<T>) {
        put_units(out, &value, 1);
    } else if constexpr (integer<T>) {
        sandbox_put_integer(&out, integer_of(value));
    } else if constexpr (floating<T>) {
        sandbox_put_double(&out, static_cast<double>(value));
    } else if constexpr (enumeration<T>) {
        put(out, static_cast<::std::underlying_type_t<T>>(value));
    } else if constexpr (null<T>) {
        sandbox_put_none(&out);
    } else if constexpr (complex<T>) {
        sandbox_put_complex(&out, static_cast<double>(value.real()), static_cast<double>(value.imag()));
    } else if constexpr (optional<T>) {
        value.has_value() ? put<bare<typename T::value_type>>(out, *value) : sandbox_put_none(&out);
    } else if constexpr (any<T>) {
        if (!value.has_value())
            sandbox_put_none(&out);
        else if (!put_any(out, value))
            sandbox_put_refusal(&out, "it has no encoding");
    } else if constexpr (handle<T>) {
        value.get() ? put<bare<typename T::element_type>>(out, *value.get()) : sandbox_put_none(&out);
    } else if constexpr (text_pointer<T>) {
        size_type size = 0;
        if (!value) return sandbox_put_none(&out);
        while (value[size]) size++;
        put_units(out, value, size);
    } else if constexpr (string<T> || view<T>) {
        put_units(out, value.data(), value.size());
    } else if constexpr (variant<T>) {
        if (value.valueless_by_exception()) return sandbox_put_refusal(&out, "a variant without a value");
        visit([&](const auto &held) { put(out, held); }, value);
    } else if constexpr (tuple<T> && !array<T>) {
        put_parts(out, value, parts<T>());
    } else if constexpr (map<T> && unique<T>) {
        put_map(out, value);
    } else if constexpr (set<T> && unique<T>) {
        put_set(out, value);
    } else if constexpr (array<T> || span<T> || container<T>) {
        put_list(out, value);
    } else {
        sandbox_put_refusal(&out, "it has no encoding");
    }
}

}
