// Tables of values by keys. Functions that take a `table` take what HashTable
// or MutableHashTable gives.
#pragma once

#include <cstdint>
#include <string>

#include "thalweg/graph/scope.h"

namespace thalweg {

struct TableArguments {
  std::string container;
  std::string shared_name;  // without one, the table belongs to this op of this session
};
// Filled once, then only read.
Output HashTable(const Scope& s, DType key, DType value, TableArguments arguments = {});
// Changed at any time.
Output MutableHashTable(const Scope& s, DType key, DType value, TableArguments arguments = {});

// Fill a HashTable.
Output InitializeTable(const Scope& s, Output table, Output keys, Output values);
struct TextFileArguments {
  int64_t key_index = -2;    // a column from 0 on; -1: the number of the line; -2: the whole line
  int64_t value_index = -1;  // the same
  int64_t vocab_size = -1;   // lines there should be; -1: any
  std::string delimiter = "\t";
};
Output InitializeTableFromTextFile(const Scope& s, Output table, Output filename, TextFileArguments arguments = {});

Output LookupTableFind(const Scope& s, Output table, Output keys, Output default_value);
Output LookupTableInsert(const Scope& s, Output table, Output keys, Output values);
Output LookupTableRemove(const Scope& s, Output table, Output keys);
Output LookupTableSize(const Scope& s, Output table);
struct TableOutputs {
  Output keys, values;
};
TableOutputs LookupTableExport(const Scope& s, Output table, DType key, DType value);
Output LookupTableImport(const Scope& s, Output table, Output keys, Output values);

}  // namespace thalweg
