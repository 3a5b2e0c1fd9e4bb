// SPDX-License-Identifier: Apache-2.0
// Saver: saves variables to checkpoints and restores them.
//
//   Saver saver(s);                                                  // after the variables are added
//   ASSIGN_OR_RETURN(auto prefix, saver.Save(session, "dir/model.ckpt", 100));   // dir/model.ckpt-100
//   RETURN_IF_ERROR(saver.Restore(session, *LatestCheckpoint("dir")));
//
// The files are TensorFlow's (docs/checkpoints.md). All tasks write and read their own
// variables in parallel, so the folder must be one that all of them can reach.
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

// Which variables a Saver saves, and how many checkpoints it keeps.
struct SaverOptions {
  std::vector<Var> variables;  // empty: all variables of the graph
  // Variables by their names in the checkpoint, instead of `variables`. A program that
  // evaluates with moving averages, for example, restores averages into its variables.
  // Parts of a partitioned variable share a name.
  std::multimap<std::string, Var> names;
  int max_to_keep = 5;  // older checkpoints are deleted; 0: none is deleted
  // Keep one checkpoint per this many hours for good.
  double keep_checkpoint_every_n_hours = 10000;
  bool write_meta_graph = true;  // write the graph beside the checkpoint, as a MetaGraphDef
  CheckpointStateOptions state;  // where the list of checkpoints is
  Clock* clock = &RealClock();   // borrowed; tests set their own
};

// The differences between a checkpoint and the variables of a graph.
struct RestoreReport {
  // A variable that the checkpoint has with another type or shape.
  struct Mismatch {
    std::string name;        // name of the variable
    std::string checkpoint;  // type and shape in the checkpoint: "float [3,2]"
    std::string graph;       // type and shape in the graph
  };
  std::vector<std::string> restored;  // names in the checkpoint that were restored
  std::vector<std::string> missing;   // variables that the checkpoint does not have
  std::vector<std::string> extra;     // tensors that the graph has no variable for
  std::vector<Mismatch> mismatched;   // variables with another type or shape

  bool complete() const { return missing.empty() && mismatched.empty(); }  // true if every variable fits
  std::string ToString() const;                                            // for people, one line per difference
};

// Saves and restores the variables of a graph. Movable. Used by one thread at a time. The
// graph must outlive it. The destructor waits for deletions of old checkpoints.
class Saver {
 public:
  // Adds its operations to the graph, under "save/", on the tasks of the
  // variables. Errors go to the scope.
  explicit Saver(const Scope& s, const SaverOptions& options = {});

  // Writes the checkpoint `prefix`-`step` (`prefix` without a step), then makes it the
  // latest of its folder. Returns its name. If that fails or the process dies, the
  // former latest checkpoint stays the latest.
  //
  // The values are a consistent snapshot: it contains all updates of another worker's
  // step or none. They are written while the training goes on. (With TensorFlow's
  // parameter servers each task saves the values that it has at the time.)
  //
  // A thread deletes old checkpoints after the call; the next Save waits for it. The last
  // checkpoint without NaN or infinite values is kept until there is a newer one.
  absl::StatusOr<std::string> Save(Session& session, const std::string& prefix, std::optional<int64_t> step = {});
  // A checkpoint whose files are written.
  struct Written {
    std::string name;    // the prefix of its files, as Restore() takes it
    bool finite = true;  // no value is NaN or infinite
  };
  // The first part of Save(): writes the files. A checkpoint that is not published is never restored.
  absl::StatusOr<Written> Write(Session& session, const std::string& prefix, std::optional<int64_t> step = {});
  // The second part of Save(): makes the files the latest checkpoint, and deletes those that are too many.
  absl::Status Publish(const Written& checkpoint);
  // Waits until old checkpoints are deleted.
  void AwaitDeletions() { deletions_.reset(); }

  // Restores all variables from the checkpoint. If a variable is missing or does not fit,
  // no variable changes and the error is FAILED_PRECONDITION with all differences. The
  // checkpoint may come from a run with other partitions or other tasks. Parts may also
  // have names of their own, as in the checkpoints of orphaned parameter servers.
  absl::Status Restore(Session& session, const std::string& prefix);
  // Restores the variables that fit, and reports the others.
  absl::StatusOr<RestoreReport> RestoreMatching(Session& session, const std::string& prefix);
  // Reports what RestoreMatching would do.
  absl::StatusOr<RestoreReport> Compare(const std::string& prefix) const;

  const Scope& scope() const { return scope_; }  // where its operations are

 private:
  struct Item {
    Var variable;
    std::string name;   // in the checkpoint
    std::string slice;  // empty: all of it
    Shape shape;        // shape of the whole variable
    std::string device;

    bool is_part() const { return !slice.empty(); }
  };

  std::vector<std::vector<const Item*>> Shards() const;
  // Writes the variables themselves or, by shard, `values`.
  Output AddSave(const Scope& s, Output prefix, const std::vector<std::vector<Output>>& values = {});
  void AddSnapshot(const Scope& s);
  // Writes the checkpoint; sets whether all its values are numbers. `session` is
  // paused only while the values are taken.
  absl::Status WriteFiles(Session& session, const std::string& name, bool* finite);
  Output AddRestore(const Scope& s, Output prefix, const std::vector<std::string>& names) const;
  absl::Status AddToList(const std::string& prefix, bool finite);
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
  std::string temporary_suffix_;  // suffix of the folder that a save with several tasks uses
  std::optional<std::string> folder_;
  CheckpointState state_;
  std::unique_ptr<Thread> deletions_;  // last: it ends before the rest goes
};

}  // namespace thalweg
