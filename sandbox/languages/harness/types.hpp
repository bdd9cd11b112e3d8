// What the values of a C++ type are like.
//
// The types of the standard library are told by what they can do, not by name: that needs only the few small
// headers below, so that a solution finds in namespace std what it included itself and little else.

#pragma once

#include <bits/cxxabi_forced.h>
#include <bits/stringfwd.h>
#include <exception>
#include <new>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "calls.h"

// As <cxxabi.h> has them, which would bring the name `abi` along.
namespace __cxxabiv1 {
extern "C" {
char *__cxa_demangle(const char *, char *, sandbox_size *, int *);
std::type_info *__cxa_current_exception_type() noexcept;
}
}

namespace sandbox_harness {

using size_type = sandbox_size;
template <class T> using bare = ::std::remove_cvref_t<T>;
template <class T> using target = ::std::remove_cv_t<::std::remove_pointer_t<T>>;
template <class T> using parts = ::std::make_index_sequence<::std::tuple_size<T>::value>;

template <class T, class... U> concept one_of = (::std::is_same_v<T, U> || ...);
template <class T> concept character = one_of<T, char, wchar_t, char8_t, char16_t, char32_t>;
template <class T> concept boolean = one_of<T, bool>;
template <class T> concept integer = ::std::is_integral_v<T> && !character<T> && !boolean<T>;
template <class T> concept floating = ::std::is_floating_point_v<T> || one_of<T, __float128>;
template <class T> concept enumeration = ::std::is_enum_v<T>;
template <class T> concept null = ::std::is_null_pointer_v<T>;
template <class T> concept text_pointer = ::std::is_pointer_v<T> && character<target<T>>;
template <class T> concept item_pointer =
    ::std::is_pointer_v<T> && ::std::is_object_v<::std::remove_pointer_t<T>> && !character<target<T>>;
template <class T> concept complex = requires(T &t) { t.imag(t.real()); requires floating<bare<decltype(t.real())>>; };
template <class T> concept optional = requires(T &t) { typename T::value_type; t.has_value(); t.reset(); t.value(); };
template <class T> concept any = requires(T &t) { t.has_value(); t.reset(); t.type().name(); };
template <class T> concept handle = requires(T &t) { typename T::element_type; *t.get(); t.reset(); };
template <class T> concept view = requires(T &t) { typename T::traits_type; t.remove_prefix(0); };
template <class T> concept string = requires(T &t) { typename T::traits_type; t.c_str(); t.push_back(t[0]); };
template <class T> concept variant = requires(T &t) { t.valueless_by_exception(); t.index(); };
template <class T> concept tuple = requires { ::std::tuple_size<T>::value; };
template <class T> concept array = tuple<T> && requires(T &t) { t.fill(t[0]); t.data(); };
template <class T> concept span = requires(T &t) { typename T::element_type; T::extent; t.subspan(0); };
template <class T> concept container = requires(T &t) { typename T::value_type; t.begin(); t.clear(); } && !string<T>;
template <class T> concept map = container<T> && requires { typename T::key_type; typename T::mapped_type; };
template <class T> concept set = container<T> && !map<T> && requires { typename T::key_type; };
template <class T> concept back = container<T> && requires(T &t, typename T::value_type v) { t.push_back(v); };
template <class T> concept back_moved =
    container<T> && requires(T &t, typename T::value_type v) { t.push_back(static_cast<typename T::value_type &&>(v)); };
template <class T> concept front = container<T> && requires(T &t) { t.before_begin(); };
template <class T> concept sequence = (back<T> || back_moved<T> || front<T>) && !set<T>;
// Sets and maps that keep an element once say whether they took it.
template <class T> concept unique = requires(T &t) { t.insert(*t.begin()).second; };

// std::string and its kind, where the solution has included it; T only delays the question to the very end.
template <class T> using text_of = ::std::conditional_t<sizeof(T) != 0, ::std::string, T>;
template <class T> concept string_known = requires { sizeof(text_of<T>); };

// Whether arguments of a type can be made: what it is made of must be supported as well.
template <class T> struct inside : ::std::false_type {};
template <class T> constexpr bool supported = inside<::std::remove_cv_t<T>>::value;
template <class T, class = parts<T>> struct elements;
template <class T, size_type... I> struct elements<T, ::std::index_sequence<I...>>
    : ::std::bool_constant<(supported<::std::tuple_element_t<I, T>> && ...)> {};
template <class T> struct alternatives : ::std::false_type {};
template <template <class...> class V, class... T> struct alternatives<V<T...>>
    : ::std::bool_constant<(supported<T> && ...)> {};

template <class T> requires boolean<T> || character<T> || integer<T> || floating<T> || enumeration<T> || null<T>
struct inside<T> : ::std::true_type {};
template <class T> requires complex<T> || string<T> || view<T> || text_pointer<T> || any<T>
struct inside<T> : ::std::true_type {};
template <class T> requires item_pointer<T> struct inside<T> : ::std::bool_constant<supported<target<T>>> {};
template <class T> requires handle<T> struct inside<T> : ::std::bool_constant<supported<typename T::element_type>> {};
template <class T> requires span<T> struct inside<T> : ::std::bool_constant<supported<typename T::element_type>> {};
template <class T> requires variant<T> struct inside<T> : alternatives<T> {};
template <class T> requires tuple<T> struct inside<T> : elements<T> {};
template <class T> requires optional<T> || set<T> || sequence<T>
struct inside<T> : ::std::bool_constant<supported<typename T::value_type>> {};
template <class T> requires map<T>
struct inside<T> : ::std::bool_constant<supported<typename T::key_type> && supported<typename T::mapped_type>> {};

// `get` of a tuple and `any_cast` are found by their argument's namespace; these tell that they are templates.
struct nothing {};
template <size_type I> void get(nothing);
template <class T> void any_cast(nothing);

class type_name {
  public:
    explicit type_name(const ::std::type_info &type) : raw(type.name()) {
        int status;
        text = ::__cxxabiv1::__cxa_demangle(raw, nullptr, nullptr, &status);
    }
    type_name(const type_name &) = delete;
    ~type_name() { __builtin_free(text); }
    const char *get() const { return text ? text : raw; }

  private:
    const char *raw;
    char *text;
};

}
