// Digits: MNIST images, in a training and a test part.
//
// Files:         `folder` has either the standard IDX files (train-images-idx3-ubyte,
//                train-labels-idx1-ubyte, t10k-…; packed with .gz or not; Y. LeCun), whose split is
//                their own; or mnist_5k.csv.gz: 5 000 lines of 784 grey values and a label, of
//                which 1 000 are for the test, chosen by a shuffle with seed 1 (the file is sorted
//                by class). Grey values are divided by 255.
// Shapes:        x float32 [n, 784] in [0, 1], y int64 [n] in [0, 9].
// Errors:        naming file, line and column.
// Thread-safety: values that don't change.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/base/fs.h"
#include "rpc/tensor/torch.h"

namespace gradwire::data {

inline constexpr int64_t kDigitPixels = 784;

class DigitsSet {
 public:
  struct Batch {
    at::Tensor x;
    at::Tensor y;
    int64_t epoch = 0;
    int64_t rows() const { return y.numel(); }
  };

  // pixels: row_count times kDigitPixels.
  DigitsSet(std::vector<float> pixels, std::vector<int64_t> labels)
      : pixels_(std::move(pixels)), labels_(std::move(labels)) {}

  int64_t row_count() const { return static_cast<int64_t>(labels_.size()); }
  // `rows`: each below row_count().
  absl::StatusOr<Batch> Take(std::span<const int64_t> rows) const;

 private:
  std::vector<float> pixels_;
  std::vector<int64_t> labels_;
};

struct Digits {
  static absl::StatusOr<Digits> Load(const std::string& folder, FileSystem& fs);

  DigitsSet train;
  DigitsSet test;
};

}  // namespace gradwire::data
