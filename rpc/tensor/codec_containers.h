// Codecs of optional, pair, tuple, vector, map and unordered_map.
//
// Memory:        decoding reserves at most as many bytes as have arrived, whatever a count claims.
// Maps:          entries arrive in strictly ascending order of their keys, so that equal maps have
//                equal bytes. A peer that chooses the keys of an unordered_map can make them
//                collide: take std::map from peers that are not trusted.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "rpc/tensor/codec.h"

namespace gradwire::rpc {

namespace codec_internal {

template <class T>
concept WireKey =
    std::same_as<T, bool> || WireInteger<T> || WireEnum<T> || kIsOneOf<T, std::string, ByteString>;

template <class... Ts>
struct Together {
  static constexpr int kDepth = 1 + std::max({0, Codec<Ts>::kDepth...});
  static constexpr size_t kMinBytes = (size_t{0} + ... + Codec<Ts>::kMinBytes);
  static std::string TypeName() {
    const std::vector<std::string> names = {rpc::TypeName<Ts>()...};
    return absl::StrCat("tuple<", absl::StrJoin(names, ","), ">");
  }
  // The first error of fn(value), in order.
  template <class Tuple, class Fn>
  static absl::Status ForEach(Tuple&& values, Fn fn) {
    absl::Status status;
    std::apply([&](auto&... value) { (void)((status = fn(value), status.ok()) && ...); }, values);
    return status;
  }
};

struct EncodeEach {
  PayloadWriter& out;
  template <class T>
  absl::Status operator()(const T& value) const {
    return Codec<T>::Encode(out, value);
  }
};
struct DecodeEach {
  PayloadReader& in;
  template <class T>
  absl::Status operator()(T& value) const {
    return DecodeInto(in, value);
  }
};

}  // namespace codec_internal

template <class T>
struct Codec<std::optional<T>> {
  static constexpr int kDepth = 1 + Codec<T>::kDepth;
  static constexpr size_t kMinBytes = 1;
  static std::string TypeName() { return absl::StrCat("optional<", rpc::TypeName<T>(), ">"); }
  static absl::Status Encode(PayloadWriter& out, const std::optional<T>& value) {
    out.head().Write<uint8_t>(value.has_value() ? 1 : 0);
    return value.has_value() ? Codec<T>::Encode(out, *value) : absl::OkStatus();
  }
  static absl::StatusOr<std::optional<T>> Decode(PayloadReader& in) {
    uint8_t flag = 0;
    if (!in.head().Read(flag)) return in.head().EndsEarly("an optional");
    if (flag > 1) {
      return absl::InvalidArgumentError(absl::StrCat("an optional starts with ", flag));
    }
    std::optional<T> value;
    if (flag == 1) {
      GW_RETURN_IF_ERROR(codec_internal::DecodeInto(in, value.emplace()));
    }
    return value;
  }
};

template <class A, class B>
struct Codec<std::pair<A, B>> : codec_internal::Together<A, B> {
  static absl::Status Encode(PayloadWriter& out, const std::pair<A, B>& value) {
    GW_RETURN_IF_ERROR(Codec<A>::Encode(out, value.first));
    return Codec<B>::Encode(out, value.second);
  }
  static absl::StatusOr<std::pair<A, B>> Decode(PayloadReader& in) {
    std::pair<A, B> value{};
    GW_RETURN_IF_ERROR(codec_internal::DecodeInto(in, value.first));
    GW_RETURN_IF_ERROR(codec_internal::DecodeInto(in, value.second));
    return value;
  }
};

template <class... Ts>
struct Codec<std::tuple<Ts...>> : codec_internal::Together<Ts...> {
  static absl::Status Encode(PayloadWriter& out, const std::tuple<Ts...>& value) {
    return codec_internal::Together<Ts...>::ForEach(value, codec_internal::EncodeEach{out});
  }
  static absl::StatusOr<std::tuple<Ts...>> Decode(PayloadReader& in) {
    std::tuple<Ts...> value{};
    GW_RETURN_IF_ERROR(
        codec_internal::Together<Ts...>::ForEach(value, codec_internal::DecodeEach{in}));
    return value;
  }
};

template <class T>
struct Codec<std::vector<T>> {
  static_assert(Codec<T>::kMinBytes > 0,
                "gradwire: a vector of values without any bytes can't travel: its length would "
                "have no bound");
  // Elements whose memory is their encoding.
  static constexpr bool kPlain = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

  static constexpr int kDepth = 1 + Codec<T>::kDepth;
  static constexpr size_t kMinBytes = 4;
  static std::string TypeName() { return absl::StrCat("vector<", rpc::TypeName<T>(), ">"); }

  static absl::Status Encode(PayloadWriter& out, const std::vector<T>& values) {
    GW_RETURN_IF_ERROR(codec_internal::EncodeCount(out, values.size()));
    if constexpr (kPlain) {
      out.head().WriteBytes(std::as_bytes(std::span(values)));
    } else {
      for (size_t i = 0; i < values.size(); ++i) {
        GW_RETURN_IF_ERROR(Codec<T>::Encode(out, values[i]), _ << "element " << i);
      }
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<std::vector<T>> Decode(PayloadReader& in) {
    GW_ASSIGN_OR_RETURN(const uint32_t count, codec_internal::DecodeCount(in, Codec<T>::kMinBytes));
    std::vector<T> values;
    if constexpr (kPlain) {
      Bytes bytes;
      if (!in.head().ReadBytes(size_t{count} * sizeof(T), bytes)) {
        return in.head().EndsEarly("a vector");
      }
      values.resize(count);
      if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    } else {
      values.reserve(std::min<size_t>(count, in.head().remaining() / sizeof(T) + 1));
      for (uint32_t i = 0; i < count; ++i) {
        absl::StatusOr<T> value = Codec<T>::Decode(in);
        GW_RETURN_IF_ERROR(value.status(), _ << "element " << i);
        values.push_back(*std::move(value));
      }
    }
    return values;
  }
};

namespace codec_internal {

template <class Map>
struct MapCodec {
  using K = typename Map::key_type;
  using V = typename Map::mapped_type;
  static_assert(WireKey<K>,
                "gradwire: keys of a map that travels may be bool, integers, enums, std::string "
                "and rpc::ByteString");

  static constexpr int kDepth = 1 + std::max(Codec<K>::kDepth, Codec<V>::kDepth);
  static constexpr size_t kMinBytes = 4;
  static std::string TypeName() {
    return absl::StrCat("map<", rpc::TypeName<K>(), ",", rpc::TypeName<V>(), ">");
  }

  static absl::Status EncodeEntry(PayloadWriter& out, const std::pair<const K, V>& entry) {
    GW_RETURN_IF_ERROR(Codec<K>::Encode(out, entry.first));
    return Codec<V>::Encode(out, entry.second);
  }

  static absl::StatusOr<Map> Decode(PayloadReader& in) {
    GW_ASSIGN_OR_RETURN(const uint32_t count,
                        DecodeCount(in, Codec<K>::kMinBytes + Codec<V>::kMinBytes));
    Map map;
    const K* previous = nullptr;  // nodes of both kinds of map stay where they are
    for (uint32_t i = 0; i < count; ++i) {
      absl::StatusOr<K> key = Codec<K>::Decode(in);
      GW_RETURN_IF_ERROR(key.status(), _ << "key " << i);
      if (previous != nullptr && !(*previous < *key)) {
        return absl::InvalidArgumentError(
            absl::StrCat("key ", i, " of a map is not above the one before it"));
      }
      absl::StatusOr<V> value = Codec<V>::Decode(in);
      GW_RETURN_IF_ERROR(value.status(), _ << "value " << i);
      previous = &map.emplace_hint(map.end(), *std::move(key), *std::move(value))->first;
    }
    return map;
  }
};

}  // namespace codec_internal

template <class K, class V>
struct Codec<std::map<K, V>> : codec_internal::MapCodec<std::map<K, V>> {
  static absl::Status Encode(PayloadWriter& out, const std::map<K, V>& map) {
    GW_RETURN_IF_ERROR(codec_internal::EncodeCount(out, map.size()));
    for (const auto& entry : map) {
      GW_RETURN_IF_ERROR(Codec::EncodeEntry(out, entry));
    }
    return absl::OkStatus();
  }
};

template <class K, class V>
struct Codec<std::unordered_map<K, V>> : codec_internal::MapCodec<std::unordered_map<K, V>> {
  static absl::Status Encode(PayloadWriter& out, const std::unordered_map<K, V>& map) {
    GW_RETURN_IF_ERROR(codec_internal::EncodeCount(out, map.size()));
    std::vector<const std::pair<const K, V>*> sorted;
    sorted.reserve(map.size());
    for (const auto& entry : map) sorted.push_back(&entry);
    std::sort(sorted.begin(), sorted.end(),
              [](const auto* a, const auto* b) { return a->first < b->first; });
    for (const auto* entry : sorted) {
      GW_RETURN_IF_ERROR(Codec::EncodeEntry(out, *entry));
    }
    return absl::OkStatus();
  }
};

}  // namespace gradwire::rpc
