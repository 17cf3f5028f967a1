#include "worker/data/tfrecord.h"

#include "rpc/base/crc32c.h"
#include "worker/data/little_endian.h"

namespace gradwire::data {

void AppendTfRecord(absl::string_view payload, std::string& out) {
  std::string length;
  AppendLittleEndian(uint64_t{payload.size()}, length);
  out += length;
  AppendLittleEndian(MaskedCrc(Crc32c(length)), out);
  out.append(payload.data(), payload.size());
  AppendLittleEndian(MaskedCrc(Crc32c(payload)), out);
}

}  // namespace gradwire::data
