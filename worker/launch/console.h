// What the user of a launcher sees: lines of all processes, each behind its process's name, and on
// a terminal one line below them that shows how far the job is.
//
//   [ps0] listens at 127.0.0.1:41233
//   [worker1] epoch 1 …
//   [=====>          ]  31%  epoch 4/10  52 300 rows/s  …        (redrawn in its place)
//
// Lines:         whole, in the order in which they came; stdout to stdout, stderr to stderr. A
//                status line is taken away before a line is printed, and drawn again with the next
//                SetStatus: they never mix.
// Bytes:         as they are, but on a terminal, where what is not UTF-8 is U+FFFD and control
//                characters are shown as ^X: a process can't reach the terminal.
// Thread-safety: none.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "rpc/base/options.h"
#include "worker/launch/output_stream.h"

namespace gradwire::launch {

// `text` as a terminal may show it.
std::string ForTerminal(absl::string_view text);

class Console {
 public:
  // The streams outlive this. `environment` may say NO_COLOR, or TERM=dumb.
  Console(OutputStream* out, OutputStream* err, const Environment& environment);

  enum class To { kOut, kErr };
  // A line of the process `name`, which is the `color`th.
  void Line(To to, absl::string_view name, int color, absl::string_view line);
  // Text of the launcher's own, of whole lines.
  void Text(To to, absl::string_view text);

  // Whether SetStatus shows anything.
  bool shows_status() const { return shows_status_; }
  // Puts `line` (ASCII) below all, cut to the terminal's width; "": nothing.
  void SetStatus(absl::string_view line);

 private:
  OutputStream& stream(To to) { return to == To::kOut ? *out_ : *err_; }
  void Clear();

  OutputStream* const out_;
  OutputStream* const err_;
  bool colored_ = false;  // each where its stream is a terminal
  bool shows_status_ = false;
  bool drawn_ = false;
};

}  // namespace gradwire::launch
