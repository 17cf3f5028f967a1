// The C++ half of formats_test.py.
//
//   formats_peer events FOLDER   two event files: a run, and its restart from a checkpoint
//   formats_peer write FILE      safetensors of all element types
//   formats_peer read FILE       prints what is in safetensors, one tensor or metadata entry a line
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/base/clock.h"
#include "rpc/base/fs.h"
#include "rpc/base/status.h"
#include "worker/data/safetensors.h"
#include "worker/data/tensorboard.h"

namespace gradwire::data {
namespace {

constexpr int kSteps = 3000;
constexpr int kRestartStep = 2000;

absl::Status WriteEvents(const std::string& folder) {
  FileSystem& fs = FileSystem::Real();
  GW_ASSIGN_OR_RETURN(const auto first, EventWriter::Create(folder, "host", Clock::Real(), fs));
  for (int step = 0; step < kSteps; ++step) {
    GW_RETURN_IF_ERROR(first->Scalar("loss", step, 1.0F / static_cast<float>(step + 1)));
    if (step % 100 == 0) GW_RETURN_IF_ERROR(first->Scalar("eval/genauigkeit ü", step, 0.5F));
  }
  GW_RETURN_IF_ERROR(first->Scalar("odd", -5, NAN));
  GW_RETURN_IF_ERROR(first->Scalar("odd", int64_t{1} << 40, INFINITY));
  GW_RETURN_IF_ERROR(first->Flush());
  // A reader goes through the files of a folder by name: "i" comes behind "host".
  GW_ASSIGN_OR_RETURN(const auto second, EventWriter::Create(folder, "i", Clock::Real(), fs));
  GW_RETURN_IF_ERROR(second->Restarted(kRestartStep));
  for (int step = kRestartStep; step < kRestartStep + 10; ++step) {
    GW_RETURN_IF_ERROR(second->Scalar("loss", step, 7.0F));
  }
  return second->Flush();
}

absl::Status WriteTensors(const std::string& path) {
  std::vector<std::string> contents;
  std::vector<NamedTensor> tensors;
  contents.reserve(rpc::kDTypeCount);
  for (uint8_t number = 1; number < rpc::kDTypeCount; ++number) {
    const auto dtype = static_cast<rpc::DType>(number);
    if (dtype == rpc::DType::kComplex128) continue;  // the format has none
    std::string& bytes = contents.emplace_back(6 * rpc::ItemBytes(dtype), '\0');
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<char>(dtype == rpc::DType::kBool ? i % 2 : i + number);
    }
    tensors.push_back(
        {std::string(rpc::DTypeName(dtype)), dtype, {2, 3}, std::as_bytes(std::span(bytes))});
  }
  tensors.push_back({"empty", rpc::DType::kFloat32, {0, 4}, {}});
  const char one[4] = {0, 0, '\x80', '\x3f'};
  tensors.push_back({"scalar \"é\\\n", rpc::DType::kFloat32, {}, std::as_bytes(std::span(one))});
  return WriteSafetensors(path, tensors, {{"step", "7"}, {"text", "a\t\"b\" é😀"}},
                          FileSystem::Real());
}

absl::Status PrintTensors(const std::string& path) {
  GW_ASSIGN_OR_RETURN(const SafetensorsFile file,
                      ReadSafetensors(path, uint64_t{1} << 30, FileSystem::Real()));
  for (const auto& [key, value] : file.contents.metadata) {
    std::printf("metadata\t%s\t%s\n", absl::BytesToHexString(key).c_str(),
                absl::BytesToHexString(value).c_str());
  }
  for (const NamedTensor& tensor : file.contents.tensors) {
    const absl::string_view bytes(reinterpret_cast<const char*>(tensor.bytes.data()),
                                  tensor.bytes.size());
    std::printf("tensor\t%s\t%s\t%s\t%s\n", absl::BytesToHexString(tensor.name).c_str(),
                std::string(rpc::DTypeName(tensor.dtype)).c_str(),
                absl::StrJoin(tensor.shape, ",").c_str(), absl::BytesToHexString(bytes).c_str());
  }
  return absl::OkStatus();
}

absl::Status Run(const std::string& command, const std::string& path) {
  if (command == "events") return WriteEvents(path);
  if (command == "write") return WriteTensors(path);
  if (command == "read") return PrintTensors(path);
  return absl::InvalidArgumentError(absl::StrCat("no command ", command));
}

}  // namespace
}  // namespace gradwire::data

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: formats_peer events|write|read PATH\n");
    return 2;
  }
  const absl::Status status = gradwire::data::Run(argv[1], argv[2]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "formats_peer: %s\n", std::string(status.message()).c_str());
  return 1;
}
