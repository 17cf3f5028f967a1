// Session: the live, resumable conversation between two incarnations.
//
// Protocol:      proto/gradwire/v1/session.proto; README.md of this folder for the states.
// What it gives: calls that run at most once and end exactly once, whatever connections come and go
//                below; credits; deadlines; cancellation; large bytes beside small calls.
// Ownership:     the Node owns sessions by peer; links (connections) hold them while they carry
// them. Thread-safety: all methods thread-safe; one lock. Callbacks, handlers and the transport are
//                called after it is released.
// Time:          one timer on the injected clock.
// Errors:        a buried session ends every call with the status it was buried with, in context.
// Limits:        AgentLimits.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/agent/bulk_frame.h"
#include "rpc/agent/call.h"
#include "rpc/agent/frame.h"
#include "rpc/agent/function_table.h"
#include "rpc/agent/limits.h"
#include "rpc/agent/sequence_set.h"
#include "rpc/agent/stats.h"
#include "rpc/agent/transfers.h"
#include "rpc/base/buffer_pool.h"
#include "rpc/base/clock.h"
#include "rpc/base/executor.h"
#include "rpc/base/mutex.h"
#include "rpc/transport/transport.h"

namespace gradwire::rpc {

using SessionId = Id<struct SessionTag>;

// What all sessions of one agent share. Outlives them (shared).
struct SessionEnv {
  Clock* clock = nullptr;
  Executor* executor = nullptr;
  BufferPool* pool = nullptr;
  AgentLimits limits;
  std::shared_ptr<const FunctionTable> functions;
  std::string self;  // own name
  AgentStats stats;
};

// Hears of a session's changes; called without any lock held, on any thread.
class SessionObserver {
 public:
  virtual ~SessionObserver() = default;
  // The control connection was lost; the session may be resumed until the window ends.
  virtual void OnDetached(const std::shared_ptr<Session>& session, const absl::Status& why) = 0;
  virtual void OnBulkLost(const std::shared_ptr<Session>& session) = 0;
  // Over, for good.
  virtual void OnBuried(const std::shared_ptr<Session>& session, const absl::Status& why) = 0;
};

enum class SessionState {
  kOpening,   // no connection yet; calls wait
  kAttached,  // carried by a connection
  kDetached,  // cut; may be resumed
  kBuried,    // over
};

class Session final : public CallOwner, public std::enable_shared_from_this<Session> {
 public:
  using State = SessionState;

  Session(std::shared_ptr<SessionEnv> env, std::string peer_name,
          std::weak_ptr<SessionObserver> observer);
  ~Session() override;

  // ---- calls (session_call.cc) ----

  // Starts a call; `done` gets its outcome, possibly before this returns. Returns its sequence.
  uint64_t StartCall(const FunctionId* function, Payload arguments, const CallOptions& options,
                     ReplyCallback done) GW_EXCLUDES(mu_);
  // Ends the call with CANCELLED now, and tells the callee. No-op if it has ended.
  void CancelCall(uint64_t seq) override GW_EXCLUDES(mu_);
  // Of the control connection, which brings the replies.
  std::shared_ptr<WaitDriver> wait_driver() override GW_EXCLUDES(mu_);

  // ---- life (session_link.cc) ----

  struct Attachment {
    SessionId id;
    PeerIdentity peer;
    bool dialled_here = false;
    uint64_t peer_seen = 0;   // items of ours that the peer has processed
    std::string session_key;  // of a new session; ignored on resume
    std::shared_ptr<Connection> connection;
  };
  // A hello ended well: `connection` carries the session from now on (an older one is closed).
  // Returns the link's number; 0: the session is buried, or the resume doesn't fit.
  uint64_t Attach(Attachment attachment) GW_EXCLUDES(mu_);
  uint64_t AttachBulk(std::shared_ptr<Connection> connection,
                      const std::vector<ReceivedProgress>& peer_progress) GW_EXCLUDES(mu_);

  // Why the peer could not be reached; part of the errors of calls that wait for a connection.
  void NoteDialFailure(const absl::Status& why) GW_EXCLUDES(mu_);
  // Whether a bulk hello's nonce is new in this session, once; a recorded hello opens no lane.
  bool TakeBulkNonce(const std::string& nonce) GW_EXCLUDES(mu_);

  // From the links, with their number; calls of an older link are ignored.
  bool WriteFrame(uint64_t link, BufferList& out) GW_EXCLUDES(mu_);
  void OnFrame(uint64_t link, const FrameView& frame) GW_EXCLUDES(mu_);
  void OnLinkClosed(uint64_t link, const absl::Status& why) GW_EXCLUDES(mu_);
  bool WriteChunk(uint64_t link, BufferList& out) GW_EXCLUDES(mu_);
  void OnChunk(uint64_t link, const BulkFrameView& frame) GW_EXCLUDES(mu_);
  void OnBulkClosed(uint64_t link, const absl::Status& why) GW_EXCLUDES(mu_);

  // Ends the session: calls end with `why` in context, handlers are told, connections close. With
  // `say_goodbye` the peer hears the reason. Idempotent.
  void Bury(const absl::Status& why, bool say_goodbye) GW_EXCLUDES(mu_);
  // The same, silently, when no connection opens this session or resumes it as `tried`; nothing if
  // another dial has reached the peer meanwhile.
  void BuryUnlessReached(SessionId tried, const absl::Status& why) GW_EXCLUDES(mu_);

  // ---- state ----
  State state() const GW_EXCLUDES(mu_);
  SessionId id() const GW_EXCLUDES(mu_);
  Incarnation peer_incarnation() const GW_EXCLUDES(mu_);
  bool dialled_here() const GW_EXCLUDES(mu_);
  // Highest item of the peer's that was processed.
  uint64_t seen() const GW_EXCLUDES(mu_);
  std::string session_key() const GW_EXCLUDES(mu_);
  std::vector<ReceivedProgress> BulkProgress() const GW_EXCLUDES(mu_);
  bool has_bulk() const GW_EXCLUDES(mu_);
  // Neither side is known to have processed an item of the other.
  bool untouched() const GW_EXCLUDES(mu_);
  const std::string& peer_name() const { return peer_name_; }
  // Calls of ours without outcome, and handlers of theirs without reply.
  size_t calls_in_flight() const GW_EXCLUDES(mu_);
  size_t handlers_in_flight() const GW_EXCLUDES(mu_);

  // ---- for the callee's side (session_serve.cc) ----
  // Sends the outcome of a call that this session brought.
  void Reply(const std::shared_ptr<IncomingCall>& call, absl::StatusOr<Payload> outcome)
      GW_EXCLUDES(mu_);

 private:
  // An item on its way out; kept until the peer has processed it.
  struct OutboxItem {
    ItemKind kind = ItemKind::kRequest;
    uint64_t call = 0;
    uint32_t function = 0;
    bool nested = false;
    const FunctionId* introduces = nullptr;  // first use: name and declaration go with it
    absl::Time deadline;
    absl::Status status;
    Buffer head;
    uint64_t head_bytes = 0;
    uint64_t head_transfer = 0;
    absl::InlinedVector<AttachmentRef, 1> attachments;
    absl::InlinedVector<Buffer, 1> inline_attachments;
    uint64_t transfer = 0;
    uint64_t offset = 0;
    bool resend = false;
    uint64_t kept_bytes = 0;  // a result's size, counted against max_kept_bytes
  };

  // A function as the peer numbered it.
  struct PeerFunction {
    const BoundFunction* function = nullptr;  // null: calls of it are refused with `refusal`
    absl::Status refusal;
  };

  // Collected under the lock, done after it.
  struct Todo {
    struct Done {
      ReplyCallback callback;
      absl::StatusOr<ReceivedPayload> outcome;
    };
    absl::InlinedVector<Done, 4> done;
    absl::InlinedVector<std::shared_ptr<IncomingCall>, 4> run_inline;
    absl::InlinedVector<std::shared_ptr<IncomingCall>, 4> post;
    std::vector<std::shared_ptr<IncomingCall>> cancel;
    std::shared_ptr<Connection> write;       // WantWrite
    std::shared_ptr<Connection> write_bulk;  // WantWrite
    std::vector<std::pair<std::shared_ptr<Connection>, absl::Status>> close;
    absl::Status violation;  // the peer broke the protocol: bury
  };
  void Finish(Todo& todo) GW_EXCLUDES(mu_);

  // session_call.cc
  void AppendRequestLocked(uint64_t seq, OutgoingCall& call) GW_REQUIRES(mu_);
  void AdmitWaitingLocked() GW_REQUIRES(mu_);
  bool HasCreditLocked(bool nested) const GW_REQUIRES(mu_);
  void EndCallLocked(uint64_t seq, absl::StatusOr<ReceivedPayload> outcome, Todo& todo)
      GW_REQUIRES(mu_);
  void SendCancelLocked(uint64_t seq) GW_REQUIRES(mu_);
  absl::Status ExplainLocked(const OutgoingCall& call, const absl::Status& cause,
                             absl::string_view next_action) const GW_REQUIRES(mu_);
  void OnReplyLocked(const ItemView& item, Todo& todo) GW_REQUIRES(mu_);
  void CompleteIfWholeLocked(uint64_t seq, OutgoingCall& call, Todo& todo) GW_REQUIRES(mu_);
  uint64_t FinishedBelowLocked() const GW_REQUIRES(mu_);

  // session_serve.cc
  void OnRequestLocked(const ItemView& item, Todo& todo) GW_REQUIRES(mu_);
  void OnCancelLocked(uint64_t seq, Todo& todo) GW_REQUIRES(mu_);
  void SweepReplyTransfersLocked() GW_REQUIRES(mu_);
  // Answers a request that was not, and will not be, run.
  void RefuseLocked(uint64_t seq, absl::Status why) GW_REQUIRES(mu_);
  const PeerFunction* PeerFunctionLocked(const ItemView& item, absl::Status* refusal)
      GW_REQUIRES(mu_);
  void StartReadyLocked(Todo& todo) GW_REQUIRES(mu_);
  void ReadyLocked(const std::shared_ptr<IncomingCall>& call, Todo& todo) GW_REQUIRES(mu_);
  void RunHandler(const std::shared_ptr<IncomingCall>& call) GW_EXCLUDES(mu_);
  void PostHandler(const std::shared_ptr<IncomingCall>& call) GW_EXCLUDES(mu_);
  void ReturnCreditLocked(IncomingCall& call) GW_REQUIRES(mu_);
  // Takes a call out of the tables; credit, memory and running slot are returned.
  void EndServingLocked(const std::shared_ptr<IncomingCall>& call, Todo& todo) GW_REQUIRES(mu_);
  void ExpireServedLocked(absl::Time now, Todo& todo) GW_REQUIRES(mu_);

  // session_items.cc
  void AppendItemLocked(OutboxItem item) GW_REQUIRES(mu_);
  void PlaceBytesLocked(TransferClass which, Payload payload, OutboxItem& item,
                        absl::InlinedVector<uint64_t, 2>& transfers) GW_REQUIRES(mu_);
  void AckLocked(uint64_t seen, absl::Time now) GW_REQUIRES(mu_);
  absl::Status OnItemLocked(const ItemView& item, Todo& todo) GW_REQUIRES(mu_);
  void WantWriteLocked(Todo& todo) GW_REQUIRES(mu_);
  // After a request of ours: writes, or waits for more of them to leave together.
  void HoldOrWriteLocked(absl::Time now, Todo& todo) GW_REQUIRES(mu_);
  void WantFrameLocked(Todo& todo) GW_REQUIRES(mu_);

  // session_bulk.cc
  absl::Status StageLocked(const ItemView& item, uint64_t call, StagedPayload& staged)
      GW_REQUIRES(mu_);
  absl::Status ExpectTransferLocked(uint64_t id, uint64_t size_bytes, uint64_t call, int slot,
                                    StagedPayload& staged) GW_REQUIRES(mu_);
  // Nobody will read what this item announces.
  void AbandonLocked(const ItemView& item, Todo& todo) GW_REQUIRES(mu_);
  void AbandonTransferLocked(uint64_t id, uint64_t size_bytes) GW_REQUIRES(mu_);
  void DropTransfersLocked(StagedPayload& staged) GW_REQUIRES(mu_);
  void OnTransferWholeLocked(const std::shared_ptr<IncomingTransfer>& transfer, Todo& todo)
      GW_REQUIRES(mu_);
  bool UntouchedLocked() const GW_REQUIRES(mu_) { return seen_ == 0 && outbox_first_ == 1; }
  static void DeliverLocked(IncomingTransfer& transfer, StagedPayload& staged);
  void SendReceivedLocked(uint64_t transfer, uint64_t offset, bool resend) GW_REQUIRES(mu_);
  bool MayAckLocked(const IncomingTransfer& transfer) const GW_REQUIRES(mu_);
  // Sends the acknowledgements that waited for staged memory to become free.
  void AckWithheldLocked() GW_REQUIRES(mu_);

  // session_link.cc
  void BuryIf(const std::optional<SessionId>& unreached, const absl::Status& why, bool say_goodbye)
      GW_EXCLUDES(mu_);
  void ArmTimerLocked(absl::Time at) GW_REQUIRES(mu_);
  void OnTimer() GW_EXCLUDES(mu_);
  absl::Time NextWakeLocked() GW_REQUIRES(mu_);
  void DetachLocked(absl::Time now) GW_REQUIRES(mu_);

  const std::shared_ptr<SessionEnv> env_;
  const std::string peer_name_;
  const std::weak_ptr<SessionObserver> observer_;

  mutable Mutex mu_;
  State state_ GW_GUARDED_BY(mu_) = State::kOpening;
  SessionId id_ GW_GUARDED_BY(mu_);
  std::shared_ptr<const PeerIdentity> peer_ GW_GUARDED_BY(mu_);
  bool dialled_here_ GW_GUARDED_BY(mu_) = false;
  std::string session_key_ GW_GUARDED_BY(mu_);
  absl::Status buried_why_ GW_GUARDED_BY(mu_);
  absl::Status dial_failure_ GW_GUARDED_BY(mu_);  // the last one, until a connection is there

  // Links. A number names one connection; it never comes back.
  uint64_t last_link_ GW_GUARDED_BY(mu_) = 0;
  uint64_t link_ GW_GUARDED_BY(mu_) = 0;       // 0: none
  uint64_t bulk_link_ GW_GUARDED_BY(mu_) = 0;  // 0: none
  std::shared_ptr<Connection> connection_ GW_GUARDED_BY(mu_);
  std::shared_ptr<Connection> bulk_connection_ GW_GUARDED_BY(mu_);
  absl::Time detached_at_ GW_GUARDED_BY(mu_) = absl::InfiniteFuture();
  absl::Time last_received_ GW_GUARDED_BY(mu_) = absl::InfinitePast();
  absl::Time heartbeat_at_ GW_GUARDED_BY(mu_) = absl::InfiniteFuture();  // next sign of life

  std::deque<std::string> bulk_nonces_ GW_GUARDED_BY(mu_);  // the last kMaxBulkNonces
  absl::Time bulk_received_ GW_GUARDED_BY(mu_) = absl::InfinitePast();

  // Items out: outbox_[i] has number outbox_first_ + i; those below next_send_ were written.
  std::deque<OutboxItem> outbox_ GW_GUARDED_BY(mu_);
  uint64_t outbox_first_ GW_GUARDED_BY(mu_) = 1;
  size_t next_send_ GW_GUARDED_BY(mu_) = 0;
  absl::Time progress_at_ GW_GUARDED_BY(mu_) = absl::InfinitePast();
  absl::Duration resend_after_ GW_GUARDED_BY(mu_);
  bool force_frame_ GW_GUARDED_BY(mu_) = false;  // a frame is due even without items
  int cork_ GW_GUARDED_BY(mu_) = 0;  // > 0: a batch is being processed; writes wait for its end
  absl::Time hold_until_ GW_GUARDED_BY(mu_) = absl::InfiniteFuture();  // finite: requests are held
  uint64_t kept_bytes_ GW_GUARDED_BY(mu_) = 0;
  FrameWriter writer_ GW_GUARDED_BY(mu_);

  // Items in.
  uint64_t seen_ GW_GUARDED_BY(mu_) = 0;
  bool gap_ GW_GUARDED_BY(mu_) = false;
  absl::Time gap_asked_at_ GW_GUARDED_BY(mu_) = absl::InfinitePast();
  uint64_t unacked_in_count_ GW_GUARDED_BY(mu_) = 0;
  absl::Time ack_due_ GW_GUARDED_BY(mu_) = absl::InfiniteFuture();

  // Calls out.
  uint64_t last_call_ GW_GUARDED_BY(mu_) = 0;
  absl::btree_map<uint64_t, OutgoingCall> calls_ GW_GUARDED_BY(mu_);
  std::deque<uint64_t> waiting_[2] GW_GUARDED_BY(mu_);         // by class: normal, nested
  uint64_t admitted_count_[2] GW_GUARDED_BY(mu_) = {0, 0};     // requests sent
  uint64_t call_limit_[2] GW_GUARDED_BY(mu_) = {0, 0};         // the peer admits up to here
  std::vector<uint32_t> function_numbers_ GW_GUARDED_BY(mu_);  // by FunctionId::index; 0: not yet
  uint32_t last_function_number_ GW_GUARDED_BY(mu_) = 0;

  // Calls in.
  absl::btree_map<uint64_t, std::shared_ptr<IncomingCall>> serving_ GW_GUARDED_BY(mu_);
  std::deque<std::shared_ptr<IncomingCall>> ready_ GW_GUARDED_BY(mu_);
  size_t running_count_ GW_GUARDED_BY(mu_) = 0;  // handlers posted or started, without reply
  uint64_t requests_count_[2] GW_GUARDED_BY(mu_) = {0, 0};  // received, by class
  uint64_t started_count_[2] GW_GUARDED_BY(mu_) = {0, 0};   // handlers started or refused, by class
  uint64_t announced_limit_[2] GW_GUARDED_BY(mu_) = {0, 0};  // what the peer was last told
  uint64_t peer_finished_below_ GW_GUARDED_BY(mu_) = 0;
  SequenceSet arrived_
      GW_GUARDED_BY(mu_);  // requests that were taken in, from peer_finished_below_ on
  absl::flat_hash_map<uint32_t, PeerFunction> peer_functions_ GW_GUARDED_BY(mu_);

  // Deadlines: heaps of (time, call), entries of ended calls are skipped, and swept out when they
  // are most.
  using Deadline = std::pair<absl::Time, uint64_t>;
  std::vector<Deadline> call_deadlines_ GW_GUARDED_BY(mu_);
  std::vector<Deadline> served_deadlines_ GW_GUARDED_BY(mu_);

  // Large bytes.
  OutgoingTransfers outgoing_ GW_GUARDED_BY(mu_);
  IncomingTransfers incoming_ GW_GUARDED_BY(mu_);
  absl::btree_map<uint64_t, absl::InlinedVector<uint64_t, 2>> reply_transfers_ GW_GUARDED_BY(mu_);
  uint64_t staged_bytes_ GW_GUARDED_BY(mu_) = 0;               // of large arguments held here
  std::vector<ReceivedProgress> withheld_ GW_GUARDED_BY(mu_);  // whole, but not acknowledged yet

  TimerId timer_ GW_GUARDED_BY(mu_);
  absl::Time timer_at_ GW_GUARDED_BY(mu_) = absl::InfiniteFuture();
};

}  // namespace gradwire::rpc
