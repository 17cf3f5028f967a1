// One completion queue and the thread that polls it. Internal to rpc/transport/grpc.
//
// Driving:       a thread that waits for something this queue brings may handle its events itself
//                (rpc/base/wait_driver.h): no wake-up of the polling thread, none of the waiting
//                one. The polling thread then parks: it stays out of the queue while waiting
//                threads come and go, and for kShortestPark after the last of them; longer, up to
//                kLongestPark, while they keep coming. So what nobody waits for may be handled that
//                much later in between. With two threads that wait at once it takes over again.
// Locks:         one, a leaf; no handler runs under it.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "rpc/base/mutex.h"
#include "rpc/base/wait_driver.h"
#include "rpc/transport/grpc/spin_policy.h"
#include "rpc/transport/grpc/tsan_handoff.h"

namespace gradwire::rpc {

// What a completion queue gives back. Owned by whoever started the operation, alive until Done.
class PollTag {
 public:
  virtual ~PollTag() = default;
  virtual void Done(bool ok) = 0;
};

class Poller {
 public:
  Poller(std::unique_ptr<grpc::CompletionQueue> queue, std::string thread_name,
         absl::Duration spin);
  // Shuts the queue down and waits until everything in it has been given back.
  ~Poller();

  grpc::CompletionQueue* queue() { return core_->queue(); }
  // For threads that wait; may outlive the poller, and then refuses.
  std::shared_ptr<WaitDriver> wait_driver() const { return core_; }

 private:
  class Core final : public WaitDriver {
   public:
    Core(std::unique_ptr<grpc::CompletionQueue> queue, absl::Duration spin);

    grpc::CompletionQueue* queue() { return queue_.get(); }
    // The polling thread's life: until the queue has been shut down and is empty.
    void Run();
    // No more driving; waits for who does it now.
    void StopDriving() GW_EXCLUDES(mu_);
    // After Run.
    void Destroy();

    bool Drive(const std::atomic<bool>& done, absl::Time deadline) override GW_EXCLUDES(mu_);
    void Woken() override GW_EXCLUDES(mu_);
    void Kick() override GW_EXCLUDES(mu_);

   private:
    using Time = SpinPolicy::Time;
    static constexpr absl::Duration kShortestPark = absl::Microseconds(200);
    static constexpr absl::Duration kLongestPark = absl::Milliseconds(1);
    // How long the polling thread stays after it had to take over from waiting threads.
    static constexpr std::chrono::milliseconds kStay{10};

    // A thread that lost its core for longer while it polled was preempted; a parked thread that
    // looks up takes less.
    static constexpr std::chrono::microseconds kPreempted{100};

    class KickTag final : public PollTag {
     public:
      explicit KickTag(Core* core) : core_(core) {}
      void Done(bool ok) override;

     private:
      Core* const core_;
    };

    static void Handle(void* tag, bool ok);
    // Polls while the policy says so. False: the queue is shut down.
    bool Spin(const std::atomic<bool>* done);
    // Somebody wants to drive, and nobody sleeps who would have to be woken from here.
    bool MayPark() GW_EXCLUDES(mu_);
    // Stays out of the queue while waiting threads drive.
    void Park() GW_EXCLUDES(mu_);
    void StopDrivingHere() GW_EXCLUDES(mu_);

    std::unique_ptr<grpc::CompletionQueue> queue_;
    // Of whoever handles events: the polling thread, or the one that drives while that is parked.
    SpinPolicy policy_;
    std::unique_ptr<grpc::Alarm> alarm_;
    KickTag kick_tag_{this};
    std::atomic<bool> wanted_{false};  // a hint: somebody wants to drive; decided under the lock

    Mutex mu_;
    CondVar changed_;
    bool parked_ GW_GUARDED_BY(mu_) = false;
    bool driven_ GW_GUARDED_BY(mu_) = false;
    std::thread::id driving_thread_ GW_GUARDED_BY(mu_);
    bool drove_ GW_GUARDED_BY(mu_) = false;     // somebody did, since the parked thread last looked
    int sleeper_count_ GW_GUARDED_BY(mu_) = 0;  // threads that wait and may not drive
    bool kicked_ GW_GUARDED_BY(mu_) = false;    // the alarm is in the queue
    bool stopped_ GW_GUARDED_BY(mu_) = false;
    Time stays_until_ GW_GUARDED_BY(mu_);
  };

  const std::shared_ptr<Core> core_;
  std::thread thread_;
};

}  // namespace gradwire::rpc
