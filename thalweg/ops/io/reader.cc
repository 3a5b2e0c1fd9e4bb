// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/io/reader.h"

#include <google/protobuf/unknown_field_set.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "thalweg/base/status.h"

namespace thalweg {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

struct Reader::Reading {
  int64_t wanted = 0;
  std::shared_ptr<Queue> queue;
  WaitingCaller caller;
  ReadDone done;
  std::vector<Record> records;
  absl::Status status;
  Tuple name;                // the dequeued file name
  std::atomic<int> turn{0};  // determines which comes second: Dequeue()'s return or its callback
};

void Reader::TakeTurn(const WaitingCaller& caller, Done turn) {
  turns_.Start(
      shared_from_this(), &mutex_, "Read", caller,
      [this](absl::Status*) {
        mutex_.AssertHeld();
        if (busy_) return false;
        busy_ = true;
        return true;
      },
      std::move(turn), [this](WaitList::Ended* ended) { turns_.Flush(ended); });
}

void Reader::EndTurn() {
  WaitList::Ended ended;
  {
    MutexLock lock(&mutex_);
    busy_ = false;
    turns_.Flush(&ended);
  }
  WaitList::End(std::move(ended));
}

void Reader::Read(int64_t n, std::shared_ptr<Queue> queue, const WaitingCaller& caller, ReadDone done) {
  auto reading = std::make_shared<Reading>();
  reading->wanted = n;
  reading->queue = std::move(queue);
  reading->caller = caller;
  reading->done = std::move(done);
  TakeTurn(caller, [self = shared_from_this(), reading](const absl::Status& status) {
    if (!status.ok()) return reading->done(status, {});
    self->Continue(reading);
  });
}

// Runs until there is a record or it must wait for a file name. If a name is available immediately, the callback
// runs inside Dequeue(). In that case this loop continues, not the callback, so that a thousand empty files do not
// make a thousand nested calls.
void Reader::Continue(std::shared_ptr<Reading> reading) {
  for (;;) {
    bool has_file = false;
    {
      MutexLock lock(&mutex_);
      has_file = started_ > finished_;
    }
    if (!has_file) {
      reading->turn.store(0);
      reading->queue->Dequeue({.cancellation = reading->caller.cancellation, .pool = reading->caller.pool},
                              [self = shared_from_this(), reading](const absl::Status& status, Tuple name) {
                                reading->status = status;
                                reading->name = std::move(name);
                                if (reading->turn.exchange(1) == 0) return;
                                if (self->StartFile(*reading) || self->ReadRecords(*reading)) {
                                  return self->Finish(*reading);
                                }
                                self->Continue(reading);
                              });
      if (reading->turn.exchange(1) == 0) return;
      if (StartFile(*reading)) return Finish(*reading);
    }
    if (ReadRecords(*reading)) return Finish(*reading);
  }
}

bool Reader::StartFile(Reading& reading) {
  if (!reading.status.ok()) return true;
  if (reading.name.size() != 1) {
    reading.status = InvalidArgument("Expected single component queue");
  } else if (reading.name[0].dtype() != kString) {
    reading.status = InvalidArgument("Expected queue with single string component");
  } else if (reading.name[0].num_elements() != 1) {
    reading.status = InvalidArgument("Expected to dequeue a one-element string tensor");
  } else {
    const std::string& file = reading.name[0].scalar<std::string>();
    reading.status = source_->Start(file);
    MutexLock lock(&mutex_);
    file_ = file;
    if (reading.status.ok()) ++started_;
  }
  return !reading.status.ok();
}

bool Reader::ReadRecords(Reading& reading) {
  bool at_end = false;
  const size_t before = reading.records.size();
  while (!at_end && static_cast<int64_t>(reading.records.size()) < reading.wanted) {
    Record record;
    const absl::StatusOr<bool> found = source_->Next(&record);
    if (!found.ok()) {
      reading.status = found.status();
      break;
    }
    at_end = !*found || source_->one_record_per_file();
    if (*found) reading.records.push_back(std::move(record));
  }
  if (at_end) source_->Stop();
  MutexLock lock(&mutex_);
  produced_ += static_cast<int64_t>(reading.records.size() - before);
  if (at_end) finished_ = started_;
  return !reading.status.ok() || !reading.records.empty();
}

void Reader::Finish(Reading& reading) {
  EndTurn();
  reading.done(reading.status, std::move(reading.records));
}

void Reader::ForgetLocked() {
  started_ = finished_ = produced_ = 0;
  file_.clear();
}

void Reader::Reset(const WaitingCaller& caller, Done done) {
  TakeTurn(caller, [self = shared_from_this(), done = std::move(done)](const absl::Status& status) mutable {
    if (!status.ok()) return done(status);
    self->source_->Stop();
    {
      MutexLock lock(&self->mutex_);
      self->ForgetLocked();
    }
    self->EndTurn();
    done(absl::OkStatus());
  });
}

// States are messages of TensorFlow's type ReaderBaseState.
void Reader::Save(const WaitingCaller& caller, std::string* state, Done done) {
  if (source_->has_state()) return done(Unimplemented("Reader SerializeState"));
  TakeTurn(caller, [self = shared_from_this(), state, done = std::move(done)](const absl::Status& status) mutable {
    if (!status.ok()) return done(status);
    UnknownFieldSet fields;
    {
      MutexLock lock(&self->mutex_);
      if (self->started_ != 0) fields.AddVarint(1, self->started_);
      if (self->finished_ != 0) fields.AddVarint(2, self->finished_);
      if (self->produced_ != 0) fields.AddVarint(3, self->produced_);
      if (!self->file_.empty()) fields.AddLengthDelimited(4, self->file_);
    }
    fields.SerializeToString(state);
    self->EndTurn();
    done(absl::OkStatus());
  });
}

absl::Status Reader::RestoreLocked(const std::string& state) {
  ForgetLocked();
  UnknownFieldSet fields;
  if (!fields.ParseFromString(state)) {
    return InvalidArgument("Could not parse state for ", name_, ": ", absl::CEscape(state));
  }
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    int64_t* const counts[] = {&started_, &finished_, &produced_};
    if (field.number() >= 1 && field.number() <= 3 && field.type() == UnknownField::TYPE_VARINT) {
      *counts[field.number() - 1] = static_cast<int64_t>(field.varint());
    } else if (field.number() == 4 && field.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
      file_ = field.length_delimited();
    }
  }
  if (started_ < 0 || finished_ < 0 || produced_ < 0) {
    return InvalidArgument("Unexpected negative value when restoring in ", name_, ": ", started_, " files started, ",
                           finished_, " finished, ", produced_, " records");
  }
  if (started_ > finished_) {
    return InvalidArgument("Inconsistent work started vs. finished when restoring in ", name_, ": ", started_, " > ",
                           finished_);
  }
  return absl::OkStatus();
}

void Reader::Restore(std::string state, const WaitingCaller& caller, Done done) {
  TakeTurn(caller, [self = shared_from_this(), state = std::move(state),
                    done = std::move(done)](const absl::Status& status) mutable {
    if (!status.ok()) return done(status);
    absl::Status restored = Unimplemented("Reader RestoreState");
    {
      MutexLock lock(&self->mutex_);
      if (!self->source_->has_state()) restored = self->RestoreLocked(state);
      if (!restored.ok()) self->ForgetLocked();
    }
    self->source_->Stop();
    self->EndTurn();
    done(restored);
  });
}

int64_t Reader::records_produced() const {
  MutexLock lock(&mutex_);
  return produced_;
}
int64_t Reader::files_completed() const {
  MutexLock lock(&mutex_);
  return finished_;
}

}  // namespace thalweg
