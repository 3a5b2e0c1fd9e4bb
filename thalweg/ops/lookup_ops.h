// SPDX-License-Identifier: Apache-2.0
// Tables of values by keys. Functions that take a `table` take a result of HashTable or
// MutableHashTable.
//
//   const Output table = HashTable(s, kString, kInt64);
//   const Output init = InitializeTable(s, table, Const(s, {"cat", "dog"}), Const(s, {int64_t{0}, int64_t{1}}));
//   const Output ids = LookupTableFind(s, table, words, int64_t{-1});
#pragma once

#include <cstdint>
#include <string>

#include "thalweg/graph/scope.h"
#include "thalweg/ops/arguments.h"

namespace thalweg {

// The name by which sessions share a table.
struct TableOptions {
  std::string container;    // where the resource lives; "" is the default container
  std::string shared_name;  // sessions that name it share it; without one it belongs to this op and session
};
// A table that is filled once and then only read.
Output HashTable(const Scope& s, DType key, DType value, const TableOptions& options = {});
// A table that can change at any time.
Output MutableHashTable(const Scope& s, DType key, DType value, const TableOptions& options = {});

// Fills a HashTable with keys and values of one shape.
Output InitializeTable(const Scope& s, Output table, Output keys, Output values);
// Which columns of a text file are the keys and the values of a table.
struct TextFileOptions {
  int64_t key_index = -2;        // the column of the keys, from 0 on; -1: the line number; -2: the whole line
  int64_t value_index = -1;      // the column of the values, as key_index
  int64_t vocab_size = -1;       // how many lines there should be; -1: any
  std::string delimiter = "\t";  // between columns
};
// Fills a HashTable from the lines of a text file.
Output InitializeTableFromTextFile(const Scope& s, Output table, Output filename, const TextFileOptions& options = {});

// The values of `keys`; default_value, of the table's value type, where there is none.
Output LookupTableFind(const Scope& s, Output table, Output keys, const ScalarArg& default_value);
// Sets values in a MutableHashTable.
Output LookupTableInsert(const Scope& s, Output table, Output keys, Output values);
// Removes keys from a MutableHashTable.
Output LookupTableRemove(const Scope& s, Output table, Output keys);
// The number of keys, an int64 scalar.
Output LookupTableSize(const Scope& s, Output table);
// All keys of a table, and their values.
struct TableResult {
  Output keys;    // [n]
  Output values;  // [n]
};
// All keys and values, in no particular order.
TableResult LookupTableExport(const Scope& s, Output table, DType key, DType value);
// Replaces the contents of a MutableHashTable.
Output LookupTableImport(const Scope& s, Output table, Output keys, Output values);

}  // namespace thalweg
