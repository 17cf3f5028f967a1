// Code that must not compile, one case a macro; without any it does.
#include "rpc/registry.h"
#include "rpc/tensor/values.h"

namespace gradwire::rpc {

inline constexpr Function<int64_t(int64_t, std::string)> kGood{"demo.good"};

inline void Good(Registry& functions) {
  functions.Bind(kGood, [](int64_t n, const std::string&) { return n; });
  (void)kGood(1, "x");
}

#if defined(CASE_type)
struct Unnamed {
  int x;
};
inline constexpr Function<void(Unnamed)> kBad{"demo.bad"};
inline auto bad = kBad({1}).declaration();
#elif defined(CASE_map_key)
inline auto bad = TypeName<std::map<double, int>>();
#elif defined(CASE_derived)
struct Base {
  int x = 0;
  GW_FIELDS(x);
};
struct Derived : Base {
  int y = 0;
};
inline auto bad = TypeName<Derived>();
#elif defined(CASE_depth)
template <int n>
struct Nested {
  Nested<n - 1> inner;
  GW_FIELDS(inner);
};
template <>
struct Nested<1> {
  int inner = 0;  // depth 2 with it
  GW_FIELDS(inner);
};
inline auto good = TypeName<Nested<31>>();
inline auto bad = TypeName<Nested<32>>();
#elif defined(CASE_empty_elements)
inline auto bad = TypeName<std::vector<std::tuple<>>>();
#elif defined(CASE_name)
inline constexpr Function<void()> kBad{"demo bad"};
#elif defined(CASE_argument)
inline auto bad = kGood("one", "x");
#elif defined(CASE_handler_arguments)
inline void Bad(Registry& functions) {
  functions.Bind(kGood, [](std::string, int64_t) { return 1; });
}
#elif defined(CASE_handler_mutable)
inline void Bad(Registry& functions) {
  functions.Bind(kGood, [calls = 0](int64_t, std::string) mutable { return ++calls; });
}
#elif defined(CASE_handler_result)
inline void Bad(Registry& functions) {
  functions.Bind(kGood, [](int64_t, std::string s) { return s; });
}
#elif defined(CASE_handler_future)
inline void Bad(Registry& functions) {
  functions.Bind(kGood, [](int64_t, std::string s) { return Future<std::string>(s); });
}
#endif

}  // namespace gradwire::rpc
