#include "rpc/security/token.h"

#include <arpa/inet.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpc/base/status.h"

namespace gradwire::rpc {

absl::StatusOr<Secret> LoadToken(FileSystem& fs, const std::string& path) {
  GW_ASSIGN_OR_RETURN(
      const FileInfo info, fs.Stat(path),
      _ << "token file (make one: (umask 077; head -c 32 /dev/urandom | base64 > " << path << "))");
  if (info.is_directory) {
    return absl::FailedPreconditionError(absl::StrCat("token file ", path, " is a folder"));
  }
  if (!info.ours) {
    return absl::PermissionDeniedError(
        absl::StrCat("token file ", path, " belongs to another user; make it yours: chown"));
  }
  if ((info.permissions & 077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrFormat("token file %s is open to others (mode %04o); run: chmod 600 %s", path,
                        info.permissions, path));
  }
  const auto wrong_size = [&](absl::string_view size) {
    return absl::InvalidArgumentError(absl::StrCat("token file ", path, " holds ", size,
                                                   " bytes; a token has ", kMinTokenBytes, " to ",
                                                   kMaxTokenBytes));
  };
  absl::StatusOr<std::string> text = fs.ReadAll(path, kMaxTokenBytes + 2);
  if (absl::IsResourceExhausted(text.status())) {
    return wrong_size(absl::StrCat("more than ", kMaxTokenBytes));
  }
  GW_RETURN_IF_ERROR(text.status(), _ << "token file " << path);
  while (!text->empty() && (text->back() == '\n' || text->back() == '\r')) text->pop_back();
  if (text->size() < kMinTokenBytes || text->size() > kMaxTokenBytes) {
    return wrong_size(absl::StrCat(text->size()));
  }
  return Secret(*std::move(text));
}

bool IsLoopback(absl::string_view address) {
  std::string host(address.substr(0, address.rfind(':')));
  if (host == "localhost") return true;
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
    in6_addr v6;
    return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
  }
  in_addr v4;
  return ::inet_pton(AF_INET, host.c_str(), &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
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
