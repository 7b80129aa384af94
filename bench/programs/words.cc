// A C++ file as there are many, to be compiled: most of the compiler's work is what it includes.
#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <vector>

int main()
{
    std::map<std::string, int> counts;
    for (std::string word; std::cin >> word;) ++counts[word];
    std::vector<std::pair<std::string, int>> words(counts.begin(), counts.end());
    std::sort(words.begin(), words.end(), [](const auto &a, const auto &b) { return a.second > b.second; });
    for (const auto &[word, count] : words) std::cout << count << ' ' << word << '\n';
}
