// Strong integer ids: mixing two kinds does not compile.
//
//   using RRefId = Id<struct RRefTag>;
//
// A default-constructed id is 0, which never names a live thing.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <utility>

namespace gradwire {

template <class Tag>
struct Id {
  uint64_t value = 0;

  friend constexpr auto operator<=>(Id, Id) = default;
  friend std::ostream& operator<<(std::ostream& out, Id id) { return out << id.value; }
  template <class H>
  friend H AbslHashValue(H state, Id id) {
    return H::combine(std::move(state), id.value);
  }
};

// One life of one named process; strictly increasing per name: (store epoch, counter), or
// wall-clock nanoseconds where there is no rendezvous store. The fencing number.
using Incarnation = Id<struct IncarnationTag>;

}  // namespace gradwire

template <class Tag>
struct std::hash<gradwire::Id<Tag>> {
  size_t operator()(gradwire::Id<Tag> id) const noexcept { return std::hash<uint64_t>()(id.value); }
};
