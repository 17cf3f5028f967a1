// Data files of any content: an error or values within their limits, and never anything else. The
// first byte chooses the parser.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "rpc/base/fs_sim.h"
#include "rpc/base/status.h"
#include "worker/data/digit_files.h"
#include "worker/data/files.h"
#include "worker/data/rating_files.h"

using namespace gradwire;        // NOLINT
using namespace gradwire::data;  // NOLINT

namespace {

void Check(const absl::StatusOr<RawDigits>& digits) {
  if (!digits.ok()) return;
  GW_CHECK(digits->pixels.size() == digits->labels.size() * 784);
  for (const int64_t label : digits->labels) GW_CHECK(label >= 0 && label <= 9);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0:
      Check(ParseCsvDigits("f", text));
      break;
    case 1: {
      const size_t cut = text.size() / 2;
      Check(ParseIdxDigits("i", text.substr(0, cut), "l", text.substr(cut)));
      break;
    }
    case 2: {
      const absl::StatusOr<RawRatings> ratings = ParseRatings("f", text);
      if (!ratings.ok()) break;
      for (const float rating : ratings->ratings) GW_CHECK(rating >= 0.5f && rating <= 5);
      break;
    }
    default: {
      SimFileSystem fs;
      GW_CHECK(fs.MakeDirs("/d").ok());
      GW_CHECK(fs.WriteAtomically("/d/f", text).ok());
      (void)ReadDataFile("/d/f", fs).ok();
    }
  }
  return 0;
}
