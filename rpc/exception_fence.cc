#include "rpc/exception_fence.h"

#include <atomic>
#include <new>

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"

namespace gradwire::rpc {
namespace {
// Set once at start-up, read when something is thrown.
std::atomic<ExceptionTranslator> translator{nullptr};
}  // namespace

void SetExceptionTranslator(ExceptionTranslator fn) { translator.store(fn); }

absl::Status CurrentExceptionStatus(absl::string_view function) {
  const std::string context = absl::StrCat("function ", function, " threw");
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(context, ": out of memory"));
  } catch (const std::exception& exception) {
    if (ExceptionTranslator translate = translator.load()) {
      if (std::optional<absl::Status> known = translate(exception)) {
        return WithContext(*known, context);
      }
    }
    return absl::InternalError(absl::StrCat(context, ": ", exception.what()));
  } catch (...) {
    return absl::InternalError(absl::StrCat(context, " something that is no std::exception"));
  }
}

}  // namespace gradwire::rpc
