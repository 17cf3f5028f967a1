// Judges our frame parser by libprotobuf's.
//
// For any bytes: what ours accepts libprotobuf accepts, with equal values; what libprotobuf accepts
// and keeps the stricter rules (frame.h, bulk_frame.h) ours accepts. And what libprotobuf read,
// written by libprotobuf again, ours accepts if it keeps the limits. Each check returns "" or what
// went wrong. Used by frame_test, bulk_frame_test and the fuzzers.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "rpc/agent/bulk_frame.h"
#include "rpc/agent/frame.h"
#include "rpc/base/rng.h"

namespace gradwire::rpc::testing {

std::string CheckFrame(absl::string_view message);
// `cut` chooses the pieces in which our parser gets the message.
std::string CheckBulkFrame(absl::string_view message, Rng& cut);

// Messages that are right, made of random parts by our writers; "" in *complaint unless ours or
// libprotobuf reads back anything else than what was written.
std::string RandomItemsFrame(Rng& rng, std::string* complaint);
std::string RandomHelloFrame(Rng& rng, std::string* complaint);
std::string RandomBulkFrame(Rng& rng, std::string* complaint);

// `message` with a few bytes changed, inserted, removed, repeated.
std::string Damage(std::string message, Rng& rng);
// `message` in random pieces, empty ones among them.
BufferList Cut(absl::string_view message, Rng& rng);

}  // namespace gradwire::rpc::testing
