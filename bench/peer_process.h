// A peer that is a program of its own: answers each line that it is sent with a number.
//
// Ownership:     the destructor closes the program's input, waits for it up to a few seconds, then
//                kills it.
// Thread-safety: none.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace gradwire::bench {

class PeerProcess {
 public:
  // Starts `command`; ok() once it has printed "ready".
  explicit PeerProcess(std::vector<std::string> command) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      std::vector<char*> argv;
      for (std::string& word : command) argv.push_back(word.data());
      argv.push_back(nullptr);
      execvp(argv[0], argv.data());
      std::perror(argv[0]);
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = fdopen(in[1], "w");
    from_ = fdopen(out[0], "r");
    ok_ = ReadLine() == "ready\n";
  }

  ~PeerProcess() {
    std::fclose(to_);
    // It prints nothing more: the end of its output is the end of its work.
    alarm(60);  // a peer that never ends ends the bench
    while (!ReadLine().empty()) {
    }
    alarm(0);
    std::fclose(from_);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  bool ok() const { return ok_; }
  pid_t pid() const { return pid_; }

  // The line that it answers.
  std::string AskText(const std::string& line) {
    std::fprintf(to_, "%s\n", line.c_str());
    std::fflush(to_);
    std::string answer = ReadLine();
    if (!answer.empty() && answer.back() == '\n') answer.pop_back();
    return answer;
  }
  // The number that it answers; ends the program if there is none.
  double Ask(const std::string& line) {
    const std::string answer = AskText(line);
    char* end = nullptr;
    const double number = std::strtod(answer.c_str(), &end);
    if (end == answer.c_str()) {
      std::fprintf(stderr, "the peer answered '%s' to '%s'\n", answer.c_str(), line.c_str());
      std::exit(1);
    }
    return number;
  }

 private:
  std::string ReadLine() {
    char line[256];
    return std::fgets(line, sizeof(line), from_) == nullptr ? "" : line;
  }

  pid_t pid_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
  bool ok_ = false;
};

}  // namespace gradwire::bench
