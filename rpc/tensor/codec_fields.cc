#include "rpc/tensor/codec_fields.h"

namespace gradwire::rpc::codec_internal {

std::string FieldName(const char* names, size_t index) {
  const std::vector<absl::string_view> all = absl::StrSplit(names, ',');
  return index < all.size() ? std::string(absl::StripAsciiWhitespace(all[index])) : "";
}

}  // namespace gradwire::rpc::codec_internal
