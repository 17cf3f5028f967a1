// The same text from g++ and clang: the presets dev and asan run this with one each.
#include "rpc/tensor/type_name.h"

#include <gtest/gtest.h>

#include "rpc/tensor/values.h"

namespace gradwire::rpc {
namespace elsewhere {
struct Sample {
  TensorView x;
  int64_t label = 0;
  GW_FIELDS(x, label);
};
enum class Kind : int32_t {};
template <class T, int n>
struct Boxed {
  T value{};
  struct Inner {
    uint8_t a = 0;
    GW_FIELDS(a);
  };
  GW_FIELDS(value);
};
enum class Colour : uint16_t {};
}  // namespace elsewhere

template <>
inline constexpr absl::string_view kTypeName<elsewhere::Colour> = "Color";

namespace {

struct Hidden {
  std::map<std::string, elsewhere::Sample> samples;
  std::vector<elsewhere::Kind> kinds;
  GW_FIELDS(samples, kinds);
};

TEST(TypeNameTest, PlainTypes) {
  EXPECT_EQ(TypeName<bool>(), "bool");
  EXPECT_EQ(TypeName<int8_t>(), "int8");
  EXPECT_EQ(TypeName<long>(), "int64");
  EXPECT_EQ(TypeName<long long>(), "int64");
  EXPECT_EQ(TypeName<size_t>(), "uint64");
  EXPECT_EQ(TypeName<float>(), "float32");
  EXPECT_EQ(TypeName<double>(), "float64");
  EXPECT_EQ(TypeName<std::string>(), "string");
  EXPECT_EQ(TypeName<ByteString>(), "bytes");
  EXPECT_EQ(TypeName<absl::Duration>(), "duration");
  EXPECT_EQ(TypeName<TensorView>(), "Tensor");
}

TEST(TypeNameTest, Containers) {
  EXPECT_EQ((TypeName<std::map<std::string, TensorView>>()), "map<string,Tensor>");
  EXPECT_EQ((TypeName<std::unordered_map<int, bool>>()), "map<int32,bool>");
  EXPECT_EQ((TypeName<std::pair<int, std::tuple<>>>()), "tuple<int32,tuple<>>");
  EXPECT_EQ((TypeName<std::optional<std::vector<float>>>()), "optional<vector<float32>>");
}

TEST(TypeNameTest, NamesOfTypesAreUnqualified) {
  EXPECT_EQ(TypeName<elsewhere::Sample>(), "Sample{x:Tensor,label:int64}");
  EXPECT_EQ(TypeName<elsewhere::Kind>(), "Kind:int32");
  EXPECT_EQ(TypeName<elsewhere::Colour>(), "Color:uint16");
  EXPECT_EQ(TypeName<Hidden>(),
            "Hidden{samples:map<string,Sample{x:Tensor,label:int64}>,kinds:vector<Kind:int32>}");
  using Boxed = elsewhere::Boxed<std::vector<long>, 3>;
  EXPECT_EQ(TypeName<Boxed>(), "Boxed{value:vector<int64>}");
  EXPECT_EQ(TypeName<Boxed::Inner>(), "Inner{a:uint8}");
}

template <class T>
std::string NameOfLocal(T) {
  struct InTemplate {
    T t{};
    GW_FIELDS(t);
  };
  return TypeName<InTemplate>();
}

TEST(TypeNameTest, LocalTypes) {
  struct Local {
    GW_FIELDS();
  };
  EXPECT_EQ(TypeName<Local>(), "Local{}");
  EXPECT_EQ(NameOfLocal(std::vector<int>()), "InTemplate{t:vector<int32>}");
}

}  // namespace
}  // namespace gradwire::rpc
