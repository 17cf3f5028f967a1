#include "rpc/security/token.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpc/base/status.h"

namespace gradwire::rpc {

absl::StatusOr<std::string> LoadToken(FileSystem& fs, const std::string& path) {
  absl::StatusOr<FileInfo> info = fs.Stat(path);
  if (!info.ok()) {
    return WithContext(
        info.status(),
        absl::StrCat("token file ", path,
                     " (make one: head -c 32 /dev/urandom | base64 > FILE; chmod 600 FILE)"));
  }
  if ((info->permissions & 077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrFormat("token file %s can be read by others (mode %03o); run: chmod 600 %s", path,
                        info->permissions, path));
  }
  GW_ASSIGN_OR_RETURN(std::string token, fs.ReadAll(path, kMaxTokenBytes + 2),
                      _ << "token file " << path);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (token.size() < kMinTokenBytes || token.size() > kMaxTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat("token file ", path, " holds ", token.size(),
                                                   " bytes; a token has ", kMinTokenBytes, " to ",
                                                   kMaxTokenBytes));
  }
  return token;
}

bool IsLoopback(absl::string_view address) {
  const size_t colon = address.rfind(':');
  absl::string_view host = address.substr(0, colon);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  }
  if (host == "localhost" || host == "::1") return true;
  // A dotted quad that begins with 127; a name like 127.example.com is none.
  return absl::StartsWith(host, "127.") &&
         host.find_first_not_of("0123456789.") == absl::string_view::npos;
}

absl::Status CheckBind(absl::string_view address, bool has_token, bool insecure_transport) {
  if (IsLoopback(address) || (has_token && insecure_transport)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "listening on ", address, ", which other machines reach, needs ",
      has_token ? "" : "--token-file=FILE (who may call)",
      !has_token && !insecure_transport ? " and " : "",
      insecure_transport ? "" : "--insecure-transport (the wire is not encrypted yet)"));
}

}  // namespace gradwire::rpc
