// One end of a conversation, for tests: says what it was given, keeps what it hears, and notes
// every call that breaks the contract of transport.h.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/base/executor.h"
#include "rpc/base/mutex.h"
#include "rpc/transport/transport.h"

namespace gradwire::rpc::testing {

inline std::string TextOf(const BufferList& message) {
  return std::string(AsText(message.Flatten().bytes()));
}

class Talker final : public ConnectionHandler {
 public:
  // Called after the talker's own part, under no lock. Set them before the connection is made.
  std::function<void(const std::string&)> on_message;
  std::function<void(int call)> on_next;  // counted from 1
  std::function<void()> on_closed;
  // Everything that waits leaves as one message, joined by '|'.
  bool coalesce = false;

  void Say(std::string text) {
    BufferList message;
    if (!text.empty()) message.Append(Buffer::FromString(std::move(text)));
    Say(std::move(message));
  }
  void Say(BufferList message) {
    Queue(std::move(message));
    if (auto connection = this->connection()) connection->WantWrite();
  }
  // Without WantWrite.
  void Queue(BufferList message) {
    MutexLock lock(mu_);
    waiting_.push_back(std::move(message));
  }

  bool NextMessage(BufferList& out) override {
    Entered entered(this, &in_next_, "NextMessage");
    int call = 0;
    {
      MutexLock lock(mu_);
      call = ++next_calls_;
      if (!out.empty()) broken_.push_back("NextMessage got a message that wasn't empty");
    }
    if (on_next) on_next(call);
    MutexLock lock(mu_);
    if (waiting_.empty()) return false;
    if (coalesce) {
      std::vector<std::string> texts;
      for (const BufferList& message : waiting_) texts.push_back(TextOf(message));
      waiting_.clear();
      out.Append(Buffer::FromString(absl::StrJoin(texts, "|")));
    } else {
      out = std::move(waiting_.front());
      waiting_.pop_front();
    }
    return true;
  }

  void OnMessage(BufferList message) override {
    Entered entered(this, &in_event_, "OnMessage");
    std::string text = TextOf(message);
    {
      MutexLock lock(mu_);
      received_.push_back(text);
    }
    if (on_message) on_message(text);
  }

  void OnClosed(absl::Status why) override {
    Entered entered(this, &in_event_, "OnClosed");
    {
      MutexLock lock(mu_);
      if (why.ok()) broken_.push_back("OnClosed with an OK status");
      if (in_next_) broken_.push_back("OnClosed during NextMessage");
      why_ = std::move(why);
    }
    if (on_closed) on_closed();
    MutexLock lock(mu_);
    ++closed_count_;
    connection_ = nullptr;
  }

  void SetConnection(std::shared_ptr<Connection> connection) {
    MutexLock lock(mu_);
    if (closed_count_ == 0) connection_ = std::move(connection);
  }
  // Null before SetConnection and after OnClosed.
  std::shared_ptr<Connection> connection() {
    MutexLock lock(mu_);
    return connection_;
  }
  std::vector<std::string> received() {
    MutexLock lock(mu_);
    return received_;
  }
  size_t received_count() {
    MutexLock lock(mu_);
    return received_.size();
  }
  int next_calls() {
    MutexLock lock(mu_);
    return next_calls_;
  }
  int closed_count() {
    MutexLock lock(mu_);
    return closed_count_;
  }
  bool closed() { return closed_count() > 0; }
  absl::Status why() {
    MutexLock lock(mu_);
    return why_;
  }
  std::vector<std::string> broken() {
    MutexLock lock(mu_);
    return broken_;
  }

 private:
  // Notes overlapping calls of one kind, calls after the last one, and events off polling threads.
  class Entered {
   public:
    Entered(Talker* talker, bool* inside, const char* what) : talker_(talker), inside_(inside) {
      MutexLock lock(talker_->mu_);
      if (*inside_) talker_->broken_.push_back(absl::StrCat(what, " overlaps another one"));
      if (talker_->closed_count_ > 0) talker_->broken_.push_back(absl::StrCat(what, " at the end"));
      if (inside_ == &talker_->in_event_ && CurrentThreadRole() != ThreadRole::kPolling) {
        talker_->broken_.push_back(absl::StrCat(what, " on a thread that doesn't poll"));
      }
      *inside_ = true;
    }
    ~Entered() {
      MutexLock lock(talker_->mu_);
      *inside_ = false;
    }

   private:
    Talker* const talker_;
    bool* const inside_;
  };

  Mutex mu_;
  std::shared_ptr<Connection> connection_ GW_GUARDED_BY(mu_);
  std::deque<BufferList> waiting_ GW_GUARDED_BY(mu_);
  std::vector<std::string> received_ GW_GUARDED_BY(mu_);
  std::vector<std::string> broken_ GW_GUARDED_BY(mu_);
  int next_calls_ GW_GUARDED_BY(mu_) = 0;
  int closed_count_ GW_GUARDED_BY(mu_) = 0;
  absl::Status why_ GW_GUARDED_BY(mu_);
  bool in_next_ = false;  // guarded by mu_, too; reached through a pointer
  bool in_event_ = false;
};

}  // namespace gradwire::rpc::testing
