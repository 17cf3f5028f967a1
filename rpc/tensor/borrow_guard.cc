#include "rpc/tensor/borrow_guard.h"

#include "absl/strings/str_cat.h"

namespace gradwire::rpc {

absl::Status BorrowGuard::Check() const {
  for (const Loan& loan : loans_) {
    const uint64_t now = loan.version_of(loan.thing.get());
    if (now == loan.version) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "argument ", loan.argument, " of ", function_, ", a tensor, was changed while the call ",
        "borrowed it (version ", loan.version, ", now ", now,
        "): wait for the reply before changing it, or call with {.copy = true}"));
  }
  return absl::OkStatus();
}

}  // namespace gradwire::rpc
