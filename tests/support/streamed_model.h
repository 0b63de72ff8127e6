// SPDX-License-Identifier: Apache-2.0
// A small checkpoint in a folder of its own with the order in which a model
// would use it, and takers that compare every row with the file.

#ifndef LOWMEM_TESTS_SUPPORT_STREAMED_MODEL_H_
#define LOWMEM_TESTS_SUPPORT_STREAMED_MODEL_H_

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/stream_order.h"
#include "storage/stream_source.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temporary_folder.h"

namespace lowmem::testing {

// Three blocks a buffer: every row length below meets every kind of border.
inline constexpr StreamRingShape kSmallRing = {.num_buffers = 5,
                                               .buffer_bytes = 3 * 4096};

// Cuts the largest matrices, "long" into bands of two rows or one.
inline constexpr uint64_t kBand = 100'000;

inline absl::Status NoProgress(uint64_t, uint64_t) { return absl::OkStatus(); }

struct NamedShape {
  std::string name;
  std::string dims;
  uint64_t num_bytes;
};

// Tensors from byte 1 on, so that no row begins where a block does.
inline std::string FileOf(const std::vector<NamedShape>& shapes) {
  std::string header = R"({"first":{"dtype":"U8","shape":[1],)"
                       R"("data_offsets":[0,1]})";
  uint64_t ofs = 1;
  for (const NamedShape& shape : shapes) {
    absl::StrAppend(&header, ",\"", shape.name, R"(":{"dtype":"U8","shape":[)",
                    shape.dims, R"(],"data_offsets":[)", ofs, ",",
                    ofs + shape.num_bytes, "]}");
    ofs += shape.num_bytes;
  }
  return SafetensorsBytes(header + "}", Pattern(ofs));
}

inline NamedShape Matrix(const std::string& name, uint64_t rows,
                         uint64_t cols) {
  return {name, absl::StrCat(rows, ",", cols), rows * cols};
}

// Two layers and a head. In the file the names are in alphabetical order, in
// use they are not.
class StreamedModel {
 public:
  explicit StreamedModel(const std::filesystem::path& parent =
                             std::filesystem::temp_directory_path())
      : folder_(parent) {
    std::vector<NamedShape> shapes;
    shapes.push_back(Matrix("embedding", 97, 301));
    shapes.push_back(Matrix("head", 211, 301));
    for (const char* layer : {"layer0.", "layer1."}) {
      shapes.push_back(Matrix(absl::StrCat(layer, "down"), 61, 1537));
      // A row of several buffers.
      shapes.push_back(Matrix(absl::StrCat(layer, "long"), 5, 40961));
      shapes.push_back({absl::StrCat(layer, "norm"), "577", 577});
      shapes.push_back(Matrix(absl::StrCat(layer, "one"), 1, 999));
      shapes.push_back(Matrix(absl::StrCat(layer, "small"), 3, 7));
      shapes.push_back(Matrix(absl::StrCat(layer, "up"), 64, 4096));
    }
    path_ = folder_.Write("model.safetensors", FileOf(shapes));
    auto opened = Checkpoint::Open(path_);
    if (!opened.ok()) return;
    checkpoint_ = *std::move(opened);
    for (const char* layer : {"layer0.", "layer1."}) {
      auto& step = steps_.emplace_back();
      for (const char* name : {"norm", "up", "small", "one", "long", "down"}) {
        step.tensors.push_back(Find(absl::StrCat(layer, name)));
      }
    }
    steps_.push_back({{Find("head")}});
  }

  TensorId Find(const std::string& name) const {
    return checkpoint_->Find(name).value_or(~TensorId{0});
  }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const std::vector<WeightStep>& steps() const { return steps_; }
  const std::string& path() const { return path_; }

  // From nothing resident (0) to everything (1).
  ResidencyPlan PlanFor(double share,
                        const StreamRingShape& ring = kSmallRing) const {
    ResidencyRequest request =
        DescribeSteps(*checkpoint_, steps_, {Find("embedding")}, kBand);
    request.ring_bytes = StreamBufferBytes(ring, MaxRowBytes(request));
    uint64_t smallest = request.ring_bytes + 2 * 577 + 64;
    for (const auto& step : request.steps) smallest += 64 * step.size();
    request.available_bytes =
        smallest +
        static_cast<uint64_t>(share * checkpoint_->total_tensor_bytes());
    auto plan = PlanResidency(request);
    return plan.ok() ? *std::move(plan) : ResidencyPlan();
  }

  std::string Bytes(TensorId tensor, uint64_t row, uint64_t num_rows) const {
    const TensorInfo& info = checkpoint_->tensors()[tensor];
    const uint64_t ofs = info.file_ofs + row * info.row_bytes();
    std::string bytes(num_rows * info.row_bytes(), '\0');
    const absl::Status status = checkpoint_->files()[info.file_idx]->Read(
        ofs,
        absl::MakeSpan(reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()));
    return status.ok() ? bytes : "";
  }

 private:
  const TemporaryFolder folder_;
  std::string path_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::vector<WeightStep> steps_;
};

// Takes rows [row, end) of a tensor and compares them with the file's. A
// failure of the source is tried again once when `retries`.
inline absl::Status TakeRows(const StreamedModel& model, WeightSource& source,
                             TensorId tensor, uint64_t row, uint64_t end,
                             uint64_t max_rows = ~0ull,
                             int* num_failures = nullptr) {
  const uint64_t row_bytes = model.checkpoint().tensors()[tensor].row_bytes();
  while (row < end) {
    absl::StatusOr<WeightLease> lease =
        source.Acquire(tensor, row, std::min(max_rows, end - row));
    if (!lease.ok() && num_failures != nullptr) {
      ++*num_failures;
      lease = source.Acquire(tensor, row, std::min(max_rows, end - row));
    }
    if (!lease.ok()) return lease.status();
    if (lease->row_begin() != row || lease->num_rows() == 0 ||
        lease->num_rows() > end - row) {
      return absl::InternalError("other rows than asked for");
    }
    const std::string got(reinterpret_cast<const char*>(lease->data()),
                          lease->num_rows() * row_bytes);
    if (got != model.Bytes(tensor, row, lease->num_rows())) {
      return absl::DataLossError(
          absl::StrCat("tensor ", tensor, ", row ", row, ": other bytes"));
    }
    row += lease->num_rows();
  }
  return absl::OkStatus();
}

inline absl::Status TakeStep(const StreamedModel& model, WeightSource& source,
                             const WeightStep& step, uint64_t max_rows = ~0ull,
                             int* num_failures = nullptr) {
  source.Prefetch(step);
  for (const TensorId tensor : step.tensors) {
    absl::Status status =
        TakeRows(model, source, tensor, 0,
                 model.checkpoint().tensors()[tensor].num_rows(), max_rows,
                 num_failures);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

inline absl::Status TakePass(const StreamedModel& model, WeightSource& source,
                             uint64_t max_rows = ~0ull,
                             int* num_failures = nullptr) {
  for (const WeightStep& step : model.steps()) {
    absl::Status status = TakeStep(model, source, step, max_rows, num_failures);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_SUPPORT_STREAMED_MODEL_H_
