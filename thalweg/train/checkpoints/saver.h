// SPDX-License-Identifier: Apache-2.0
// Saver: variables into checkpoints and back.
//
//   Saver saver(s);                                                  // after the variables were made
//   ASSIGN_OR_RETURN(auto prefix, saver.Save(session, "dir/model.ckpt", 100));   // dir/model.ckpt-100
//   RETURN_IF_ERROR(saver.Restore(session, *LatestCheckpoint("dir")));
//
// The files are TensorFlow's (docs/checkpoints.md). Each task that holds
// variables writes and reads its own, all at once, so that the folder must be
// one that all of them see.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/thread.h"
#include "thalweg/client/session.h"
#include "thalweg/graph/scope.h"
#include "thalweg/train/checkpoints/checkpoint_state.h"
#include "thalweg/train/layers/variable.h"

namespace thalweg {

struct SaverOptions {
  std::vector<Var> variables;  // empty: all of the graph
  // Variables under other names, in place of the above: averages, say, that a
  // program which evaluates takes for the variables. Parts of one share a name.
  std::multimap<std::string, Var> names;
  int max_to_keep = 5;  // older ones are deleted; 0: none is
  // One in so many hours is kept for good.
  double keep_checkpoint_every_n_hours = 10000;
  bool write_meta_graph = true;  // the graph beside the checkpoint, as a MetaGraphDef
  CheckpointStateOptions state;
  Clock* clock = &RealClock();
};

// How a checkpoint and the variables of a graph fit.
struct RestoreReport {
  // A variable that the checkpoint has with another type or shape.
  struct Mismatch {
    std::string name;
    std::string checkpoint;  // "float [3,2]"
    std::string graph;
  };
  std::vector<std::string> restored;  // names in the checkpoint
  std::vector<std::string> missing;   // variables that the checkpoint does not have
  std::vector<std::string> extra;     // tensors that the graph has no variable for
  std::vector<Mismatch> mismatched;   // of another type or shape

  bool complete() const { return missing.empty() && mismatched.empty(); }
  std::string ToString() const;
};

// Movable. Used by one thread at a time. The graph must outlive it. The
// destructor waits for deletions to end.
class Saver {
 public:
  // Adds its operations to the graph, under "save/", on the tasks of the
  // variables. Errors go to the scope.
  explicit Saver(const Scope& s, SaverOptions options = {});

  // Writes `prefix`-`step` (or `prefix`, without a step), then makes it the
  // latest of its folder. Returns the name. If it fails or the process dies, the
  // latest stays what it was. The values are those of one moment, which a step of
  // another worker is in as a whole or not at all; they are written while the
  // training goes on. (With parameter servers of TensorFlow each task saves what it
  // has at the time.) What is not kept any more is deleted by a thread, while the
  // caller goes on; the next Save waits for it. The last checkpoint whose values
  // are all finite is kept as long as those after it are not.
  absl::StatusOr<std::string> Save(Session& session, const std::string& prefix, std::optional<int64_t> step = {});
  // Waits until what was not kept any more is deleted.
  void AwaitDeletions() { deletions_.reset(); }

  // Gives all variables the values of the checkpoint. FAILED_PRECONDITION that
  // says what does not fit, and no variable changes, unless all of them are in
  // it. How variables were divided and on which tasks they were does not matter;
  // parts may also be there under their own names, as in what orphaned parameter
  // servers save.
  absl::Status Restore(Session& session, const std::string& prefix);
  // Gives what fits, and reports what does not.
  absl::StatusOr<RestoreReport> RestoreMatching(Session& session, const std::string& prefix);
  // Only reports.
  absl::StatusOr<RestoreReport> Compare(const std::string& prefix) const;

  const Scope& scope() const { return scope_; }

 private:
  struct Item {
    Var variable;
    std::string name;   // in the checkpoint
    std::string slice;  // empty: all of it
    Shape shape;        // of the whole
    std::string device;

    bool is_part() const { return !slice.empty(); }
  };

  std::vector<std::vector<const Item*>> Shards() const;
  // Writes the variables themselves or, by shard, `values`.
  Output AddSave(const Scope& s, Output prefix, const std::vector<std::vector<Output>>& values = {});
  void AddSnapshot(const Scope& s);
  // Writes the checkpoint; sets whether all its values are numbers. `session` is
  // paused only while the values are taken.
  absl::Status Write(Session& session, const std::string& name, bool* finite);
  Output AddRestore(const Scope& s, Output prefix, const std::vector<std::string>& names) const;
  absl::Status Publish(const std::string& prefix, bool finite);
  // Takes the oldest checkpoints that are not kept any more out of the list.
  std::vector<std::string> Rotate(CheckpointState& state) const;
  absl::Status TakeOverState(const std::string& folder, const std::string& base);
  void DeleteLeftovers(const std::string& folder, const std::string& base) const;

  Scope scope_;
  SaverOptions options_;
  std::vector<Item> items_;
  Output filename_, save_, restore_;
  std::vector<Fetch> snapshot_;   // takes the values of one moment
  Output save_snapshot_;          // writes them
  std::vector<Output> finite_;    // whether they are numbers, by shard
  bool takes_snapshots_ = true;   // false: a task does not know how, as TensorFlow's
  std::string temporary_suffix_;  // of the folder that a save with several tasks uses
  std::optional<std::string> folder_;
  CheckpointState state_;
  std::unique_ptr<Thread> deletions_;  // last: it ends before the rest goes
};

}  // namespace thalweg
