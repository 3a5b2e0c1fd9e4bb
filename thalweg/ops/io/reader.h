// SPDX-License-Identifier: Apache-2.0
// A reader returns the records of files, one after the other. The file names come from a queue.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/ops/data_flow/queue.h"
#include "thalweg/ops/support/wait_list.h"

namespace thalweg {

struct Record {
  std::string key, value;
};

// Reads the records of one kind of file. Not thread-safe: the reader serializes its calls.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // Opens a file. An error ends the call; the next call uses another file.
  virtual absl::Status Start(const std::string& file) = 0;
  // False at the end of the file.
  virtual absl::StatusOr<bool> Next(Record* record) = 0;
  // Closes the file.
  virtual void Stop() = 0;
  // Whether it is in the middle of a file, so that its state cannot be saved.
  virtual bool has_state() const { return true; }
  // Whether each file is a single record.
  virtual bool one_record_per_file() const { return false; }
};

// Thread-safe. Calls are served one after the other.
class Reader : public Resource, public std::enable_shared_from_this<Reader> {
 public:
  static constexpr char kTypeName[] = "N10tensorflow15ReaderInterfaceE";
  using Done = absl::AnyInvocable<void(const absl::Status&)>;
  using ReadDone = absl::AnyInvocable<void(const absl::Status&, std::vector<Record>)>;

  // `name` is for messages: "TextLineReader 'node'".
  Reader(std::string name, std::unique_ptr<RecordSource> source) : name_(std::move(name)), source_(std::move(source)) {}

  // Reads 1 to n records. Waits for a file name only while it has no record. OUT_OF_RANGE if the queue is
  // closed and empty. REQUIRES: n >= 1.
  void Read(int64_t n, std::shared_ptr<Queue> queue, const WaitingCaller& caller, ReadDone done);
  // Returns to the initial state.
  void Reset(const WaitingCaller& caller, Done done);
  // UNIMPLEMENTED for sources whose state cannot be saved.
  void Save(const WaitingCaller& caller, std::string* state, Done done);
  // On an error, returns to the initial state.
  void Restore(std::string state, const WaitingCaller& caller, Done done);

  int64_t records_produced() const;
  int64_t files_completed() const;
  std::string Describe() const override { return absl::StrCat("a ", name_); }

 private:
  struct Reading;

  // Runs `turn` when no other call is running. The turn ends with EndTurn().
  void TakeTurn(const WaitingCaller& caller, Done turn);
  void EndTurn();
  void Continue(std::shared_ptr<Reading> reading);
  // Handle a new file name, or read records. Return true if the call is complete.
  bool StartFile(Reading& reading);
  bool ReadRecords(Reading& reading);
  void Finish(Reading& reading);
  void ForgetLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RestoreLocked(const std::string& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  const std::unique_ptr<RecordSource> source_;  // used by the call that has the turn
  mutable Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t started_ ABSL_GUARDED_BY(mutex_) = 0;   // number of files opened
  int64_t finished_ ABSL_GUARDED_BY(mutex_) = 0;  // number of files read completely
  int64_t produced_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string file_ ABSL_GUARDED_BY(mutex_);
  WaitList turns_{/*in_order=*/true};  // guarded by mutex_
};

}  // namespace thalweg
