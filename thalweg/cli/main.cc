// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <string>
#include <vector>

#include "thalweg/base/memory.h"
#include "thalweg/cli/program.h"

int main(int argc, char** argv) {
  return thalweg::cli::RunProgram(std::vector<std::string>(argv + 1, argv + argc), std::cout, std::cerr);
}
