# Big strings and hashes of Perl, and a child.
use strict;
use warnings;
my $big = "abc" x 2_000_000;
$big =~ s/b/xy/g;
my %h = map { $_ => "v" x ($_ % 300) } 1 .. 60_000;
my $sum = 0;
$sum += length $h{$_} for keys %h;
my $bits = '';
vec($bits, 8_000_000, 1) = 1;
system('exit 3');
print length($big), " $sum ", length($bits), ' ', $? >> 8, "\n";
