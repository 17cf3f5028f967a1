// Framing of TFRecord files, which TensorBoard's event files are made of.
//
//   u64le length, u32le masked CRC of these 8 bytes, payload, u32le masked CRC of the payload
//
// A reader stops for good at a record whose CRC is wrong, and waits for more at one that is cut
// off. Thread-safety: stateless.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace gradwire::data {

// How the format stores a CRC-32C: turned right by 15 bits plus a constant, so that the CRC of
// bytes that hold their own CRC is nothing special.
constexpr uint32_t MaskedCrc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

// Puts a record with `payload` behind `out`.
void AppendTfRecord(absl::string_view payload, std::string& out);

}  // namespace gradwire::data
