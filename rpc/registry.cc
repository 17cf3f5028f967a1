#include "rpc/registry.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rpc/agent/function_table.h"

namespace gradwire::rpc {
namespace {

// Head of the list of GW_FUNCTION lines. Release/acquire publishes a line that a library loaded
// later adds; lines are never taken out, so no lock.
constinit std::atomic<const registry_internal::StaticBinding*> g_static_bindings{nullptr};

// "rpc/registry.cc:12": the file with its folder; the rest is the machine's business.
std::string ShortPlace(const std::source_location& place) {
  absl::string_view file = place.file_name();
  size_t slash = file.rfind('/');
  if (slash != absl::string_view::npos && slash > 0) slash = file.rfind('/', slash - 1);
  if (slash != absl::string_view::npos) file.remove_prefix(slash + 1);
  return absl::StrCat(file, ":", place.line());
}

}  // namespace

Registry& Registry::Add(BoundFunction function, std::source_location place) {
  function.place = ShortPlace(place);
  functions_.push_back(std::move(function));
  return *this;
}

absl::Status Registry::Validate() const { return FunctionTable::Build(functions_).status(); }

Registry Registry::FromStatic() {
  std::vector<const registry_internal::StaticBinding*> lines;  // the last one first
  for (auto* line = g_static_bindings.load(std::memory_order_acquire); line != nullptr;
       line = line->next_) {
    lines.push_back(line);
  }
  Registry registry;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) (*line)->bind_(registry);
  return registry;
}

namespace registry_internal {

StaticBinding::StaticBinding(void (*bind)(Registry&)) : bind_(bind) {
  next_ = g_static_bindings.load(std::memory_order_relaxed);
  while (!g_static_bindings.compare_exchange_weak(next_, this, std::memory_order_release,
                                                  std::memory_order_relaxed)) {
  }
}

}  // namespace registry_internal
}  // namespace gradwire::rpc
